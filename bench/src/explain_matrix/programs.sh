# Programs that move files from near to far, all on port 5301. `serve_NAME` starts the server at near;
# `fetch_NAME` runs at far until it is stopped. Files are zeros that nothing stores; what must be
# written is written to memory. HOST is the address of near. SERVER_RATE and CLIENT_RATE, in byte/s, limit
# what a server of HTTP sends on each connection and what its client reads.
FILES=/run/files
KEY=/run/key
HOST=$ADDRESS
[ $FAMILY = 4 ] || HOST="[$ADDRESS]"
mkdir -p $FILES /run/fetched
for number in 1 2 3 4 5 6 7 8; do truncate -s 1G $FILES/$number; done
at_near() { ip netns exec near "$@" >>/run/programs.log 2>&1; }
at_far() { ip netns exec far "$@" >>/run/programs.log 2>&1; }

serve_ssh() {
    mkdir -p /run/sshd
    [ -e $KEY ] || ssh-keygen -q -t ed25519 -N '' -f $KEY
    at_near /usr/sbin/sshd -f /dev/null -p 5301 -h $KEY -o PidFile=none -o UsePAM=no \
        -o StrictModes=no -o AuthorizedKeysFile=$KEY.pub -o Subsystem='sftp internal-sftp'
}
SSH_OPTIONS="-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o IdentityFile=$KEY"
serve_http() {
    cat >/run/nginx.conf <<CONFIGURATION
pid /run/nginx.pid;
error_log /run/nginx.log;
events {}
http {
    access_log off;
    client_body_temp_path /run/body;
    proxy_temp_path /run/proxy;
    fastcgi_temp_path /run/fastcgi;
    uwsgi_temp_path /run/uwsgi;
    scgi_temp_path /run/scgi;
    sendfile on;
    server { listen 5301; listen [::]:5301; root $FILES; autoindex on; limit_rate ${SERVER_RATE:-0}; }
}
CONFIGURATION
    at_near nginx -p /run -c /run/nginx.conf
}
serve_xrootd() {
    # It needs the name of its host.
    printf '127.0.0.1 localhost\n::1 localhost\n%s near\n' $ADDRESS >/run/hosts
    mount --bind /run/hosts /etc/hosts
    hostname near
    mkdir -p /run/xrootd
    chown xrootd /run/xrootd $FILES
    cat >/run/xrootd.cf <<CONFIGURATION
xrd.port 5301
all.export /
oss.localroot $FILES
all.adminpath /run/xrootd
all.pidpath /run/xrootd
CONFIGURATION
    at_near xrootd -b -R xrootd -c /run/xrootd.cf -l /run/xrootd/log
}

fetch_scp() { at_far scp -q -P 5301 $SSH_OPTIONS "root@$HOST:$FILES/1" /dev/null; }
fetch_sftp() { at_far sftp -q -P 5301 $SSH_OPTIONS "root@$HOST:$FILES/1" /dev/null; }
fetch_rsync() {
    at_far rsync --inplace -e "ssh -p 5301 $SSH_OPTIONS" "root@$HOST:$FILES/*" /run/fetched/
}
# No memory is allocated for files that do not arrive.
RCLONE='rclone --config /dev/null copy --multi-thread-streams 0 --local-no-preallocate'
fetch_rclone_sftp() {
    at_far $RCLONE --sftp-host $HOST --sftp-port 5301 --sftp-user root --sftp-key-file $KEY \
        --transfers 1 :sftp:$FILES /run/fetched
}
fetch_rclone_http() {
    at_far $RCLONE --http-url http://$HOST:5301 ${CLIENT_RATE:+--bwlimit ${CLIENT_RATE}B} :http: /run/fetched
}
fetch_curl() {
    at_far curl -s --limit-rate ${CLIENT_RATE:-0} -o /dev/null "http://$HOST:5301/[1-8]"
}
fetch_aria2c() {
    at_far aria2c -q -x 4 -s 4 --max-download-limit=${CLIENT_RATE:-0} --file-allocation=none \
        -d /run/fetched http://$HOST:5301/1
}
fetch_lftp() {
    at_far lftp -c "set cmd:fail-exit true; set net:limit-rate ${CLIENT_RATE:-0}; \
        get http://$HOST:5301/1 -o /run/fetched/1"
}
fetch_xrdcp() {
    export XRD_CPCHUNKSIZE=262144 XRD_CPPARALLELCHUNKS=4
    at_far xrdcp -s -f root://$HOST:5301//1 /dev/null
}
