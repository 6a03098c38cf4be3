#!/usr/bin/env bash
# Stands for shutdown(8) on a simulated machine: tells the world, which then takes the power.
# `shutdown -h +5` waits first, as the real one does.
set -u
for argument in "$@"; do
  case $argument in
    +*) sleep "$((${argument#+} * 60))" ;;
  esac
done
curl -sS --max-time 10 -X POST '@WORLD@/machine/@MACHINE@/shutdown'
