[ ! -d /run/systemd/system ] || systemctl daemon-reload || :
# pScheduler looks for new plug-ins.
! command -v pscheduler >/dev/null || pscheduler internal warmboot || :
