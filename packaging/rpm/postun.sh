if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
	[ "$1" = 0 ] || systemctl try-restart longhaul-serve.service longhaul-watch.service || :
fi
! command -v pscheduler >/dev/null || pscheduler internal warmboot || :
