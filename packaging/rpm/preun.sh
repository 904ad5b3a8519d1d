if [ "$1" = 0 ] && [ -d /run/systemd/system ]; then
	systemctl --no-reload disable --now longhaul-serve.service longhaul-watch.service || :
fi
