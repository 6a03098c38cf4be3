#!/usr/bin/env bash
# Simulates shutdown(8): notifies the world, which then powers the machine off.
# `shutdown -h +5` waits first, as the real one does.
set -u
for argument in "$@"; do
  case $argument in
    +*) sleep "$((${argument#+} * 60))" ;;
  esac
done
curl -sS --max-time 10 -X POST '@WORLD@/machine/@MACHINE@/shutdown'
