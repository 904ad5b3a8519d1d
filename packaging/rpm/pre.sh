getent passwd longhaul >/dev/null || useradd --system --user-group --home-dir /var/lib/longhaul \
	--no-create-home --shell /sbin/nologin longhaul
