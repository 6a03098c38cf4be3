"""Runs a program in a pseudo-terminal, as a person does: waits for its output, and types answers."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import time

from local import Failed

# Escape sequences for colours and cursor movements.
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][0-9A-B]|\r")
CTRL_C = "\x03"
ENTER = "\r"


class Terminal:
    def __init__(self, arguments, environment, folder):
        outer, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))

        def own_terminal():
            # Ctrl-C becomes a signal only in a session's controlling terminal.
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [str(one) for one in arguments],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env=environment,
            cwd=folder,
            start_new_session=True,
            preexec_fn=own_terminal,
        )
        os.close(inner)
        self.outer, self.text, self.seen = outer, "", 0
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        raw = b""
        while True:
            try:
                part = os.read(self.outer, 65536)
            except OSError:  # Linux returns it once the terminal's other end is closed
                return
            if not part:
                return
            raw += part
            self.text = CONTROL.sub("", raw.decode(errors="replace"))

    def expect(self, *wanted, seconds=60):
        """Waits until one of these texts appears after the previous match. Returns that text."""
        until = time.monotonic() + seconds
        while True:
            is_over = not self.reader.is_alive()
            found = [(self.text.find(one, self.seen), one) for one in wanted]
            found = sorted(pair for pair in found if pair[0] >= 0)
            if found:
                place, one = found[0]
                self.seen = place + len(one)
                return one
            if is_over or time.monotonic() > until:
                why = "ended" if is_over else f"for {seconds} s did not go on"
                raise Failed(f"the program {why} without saying {' or '.join(wanted)!r}:\n{self.text}")
            time.sleep(0.02)

    def type(self, text):
        os.write(self.outer, text.encode())

    def answer(self, question, seconds=60):
        """Presses Enter once the prompt and its default are shown."""
        self.expect(question, seconds=seconds)
        self.expect("]:")
        self.type(ENTER)

    def stop(self):
        self.type(CTRL_C)

    def end(self, seconds=60):
        """Waits for the program's end. Returns its exit code and its whole output."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"the program did not end within {seconds} s:\n{self.text}") from None
        self.reader.join(5)
        os.close(self.outer)
        return code, self.text

    def kill(self):
        self.process.kill()
        self.process.wait()
