exec /usr/bin/python3 -I "${0%/*}/machine.py" job-completed
