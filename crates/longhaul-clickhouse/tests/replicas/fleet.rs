//! Two servers, replicas of one shard or two shards, and their ZooKeeper, as processes of this test.

use longhaul_clickhouse::ClickHouseOptions;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering::SeqCst};
use std::time::{Duration, Instant};

pub const PASSWORD: &str = "correct-horse";

const HOW: &str =
    "`cargo xtask clickhouse` installs clickhouse-server and zookeeper, Debian's packages";

/// Java and an old server need their time on a busy machine.
const START_WITHIN: Duration = Duration::from_secs(600);

/// A session of a server that was killed ends after this.
const SESSION_MS: u32 = 6000;

pub struct Fleet {
    folder: PathBuf,
    _keeper: Process,
    pub replicas: Vec<Replica>,
}

/// The ports that all servers know, and the number of shards.
struct ClusterPorts {
    keeper: u16,
    tcp: [u16; 2],
    shards: usize,
}

/// Ended by its number when this goes.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub struct Replica {
    folder: PathBuf,
    http: u16,
    process: Option<Process>,
}

impl Fleet {
    /// Two replicas of one shard, or two shards of one replica.
    pub fn start(shards: usize) -> Fleet {
        let name = format!("shards-{shards}-{}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        let ports = free_ports::<7>();
        let keeper = keeper(&folder.join("keeper"), ports[0]);
        let replicas = [&ports[1..4], &ports[4..7]];
        let tcp = [ports[2], ports[5]];
        let replicas = replicas.into_iter().enumerate().map(|(number, own)| {
            let folder = folder.join(format!("replica{number}"));
            fs::create_dir_all(&folder).expect("a folder");
            let cluster = ClusterPorts { keeper: ports[0], tcp, shards };
            let config = config(&folder, number, own, &cluster);
            fs::write(folder.join("config.xml"), config).expect("its configuration");
            fs::write(folder.join("users.xml"), users()).expect("its users");
            let mut replica = Replica { folder, http: own[0], process: None };
            replica.start();
            replica
        });
        Fleet { replicas: replicas.collect(), _keeper: keeper, folder }
    }

    /// Through these replicas, the first one first.
    pub fn options(&self, replicas: &[usize]) -> ClickHouseOptions {
        let urls = replicas.iter().map(|&number| self.replicas[number].url());
        ClickHouseOptions {
            urls: urls.collect(),
            database: String::from("fleet"),
            password: Some(String::from(PASSWORD)),
            cluster: Some(String::from("mesh")),
            adapt_sql: Some(write_old_syntax),
            ..ClickHouseOptions::default()
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for replica in &mut self.replicas {
            replica.kill();
            if std::thread::panicking() {
                replica.tell_log();
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Replica {
    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.http)
    }

    /// Returns when it answers.
    pub fn start(&mut self) {
        let mut command = Command::new("clickhouse-server");
        let config = self.folder.join("config.xml");
        let log = self.folder.join("log");
        let _ = fs::remove_file(&log);
        command.arg(format!("--config-file={}", config.display()));
        let server = self.process.insert(spawn(&mut command, &self.folder));
        // This old server falls over statements for the cluster that come before it has begun its
        // session with the keeper.
        wait_for("a replica", || {
            let ended = server.0.try_wait().expect("its state");
            let log = fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none(), "a replica ended ({ended:?}):\n{log}");
            log.contains("DDLWorker: Waiting a watch")
        });
        wait_for("a replica's answer", || {
            said(self.http, "GET /ping HTTP/1.0\r\n\r\n").is_some_and(|it| it.contains("Ok."))
        });
    }

    /// As `kill -9`.
    pub fn kill(&mut self) {
        self.process = None;
    }

    fn tell_log(&self) {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let bad = |line: &&str| line.contains("<Error>") || line.contains("<Warning>");
        let lines: Vec<&str> = log.lines().filter(bad).collect();
        let last = &lines[lines.len().saturating_sub(30)..];
        eprintln!("{}:\n{}", self.folder.display(), last.join("\n"));
    }
}

fn spawn(command: &mut Command, folder: &Path) -> Process {
    let out = fs::File::create(folder.join("out")).expect("a file");
    let copy = out.try_clone().expect("a copy");
    let program = command.get_program().to_owned();
    let child = command.current_dir(folder).stdin(Stdio::null()).stdout(out).stderr(copy).spawn();
    Process(
        child.unwrap_or_else(|error| panic!("cannot start {}: {error}; {HOW}", program.display())),
    )
}

fn keeper(folder: &Path, port: u16) -> Process {
    fs::create_dir_all(folder).expect("a folder");
    let settings = format!(
        "tickTime=500\nmaxSessionTimeout=20000\ndataDir={}\nclientPort={port}\n\
         clientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=ruok\n",
        folder.display()
    );
    fs::write(folder.join("zoo.cfg"), settings).expect("its configuration");
    let mut command = Command::new("java");
    command
        .args(["-Xmx256m", "-cp", "/usr/share/java/zookeeper.jar"])
        .arg("org.apache.zookeeper.server.ZooKeeperServerMain")
        .arg("zoo.cfg");
    let process = spawn(&mut command, folder);
    wait_for("ZooKeeper", || said(port, "ruok").is_some_and(|it| it == "imok"));
    process
}

/// What a port answers to a few words.
fn said(port: u16, words: &str) -> Option<String> {
    let mut to = TcpStream::connect(("127.0.0.1", port)).ok()?;
    to.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    to.write_all(words.as_bytes()).ok()?;
    let mut answer = String::new();
    to.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Returns the answer of one of the servers to a query; `None` if none answers or it fails.
pub fn ask(options: &ClickHouseOptions, sql: &str) -> Option<String> {
    let request = format!(
        "POST /?database=fleet&user=default&password={PASSWORD} HTTP/1.0\r\n\
         Content-Length: {}\r\n\r\n{sql}",
        sql.len()
    );
    let ports = options.urls.iter().filter_map(|url| url.rsplit(':').next()?.parse().ok());
    let answers = ports.filter_map(|port| said(port, &request));
    let mut good = answers.filter(|answer| answer.contains(" 200 OK"));
    let answer = good.next()?;
    Some(answer.split_once("\r\n\r\n")?.1.trim().to_owned())
}

/// Asks again and again until it is so.
pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < START_WITHIN, "{what} is not there in time; {HOW}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Removes or replaces syntax that is newer than 2018.
fn write_old_syntax(statement: &str) -> String {
    if let Some(rest) = statement.strip_prefix("DELETE FROM ") {
        return format!("ALTER TABLE {}", rest.replacen(" WHERE ", " DELETE WHERE ", 1));
    }
    let known = |line: &&str| {
        let line = line.trim_start();
        !["INDEX ", "TTL ", "SETTINGS "].iter().any(|it| line.starts_with(it))
    };
    let lines: Vec<String> = statement.lines().filter(known).map(strip_column_codec).collect();
    // Removes the comma before a dropped index.
    lines.join("\n").replace(",\n)", "\n)")
}

fn strip_column_codec(line: &str) -> String {
    let line = line.replace("LowCardinality(String)", "String");
    let Some((column, codec)) = line.split_once(" CODEC(") else {
        return line;
    };
    let comma = if codec.ends_with(',') { "," } else { "" };
    format!("{column}{comma}")
}

/// Returns ports that no one listens on. They lie below the range of ephemeral ports: a server would
/// not get a port that an outgoing connection has taken before it starts.
fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = 10_000 + (std::process::id() % 200) as u16 * 100;
    [(); COUNT].map(|()| {
        let mut ports = std::iter::repeat_with(|| base + NEXT.fetch_add(1, SeqCst)).take(100);
        ports.find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()).expect("a port")
    })
}

fn config(folder: &Path, number: usize, own: &[u16], cluster: &ClusterPorts) -> String {
    let ClusterPorts { keeper, tcp, shards } = cluster;
    let replica = |port: &u16| {
        format!(
            "<replica><host>127.0.0.1</host><port>{port}</port><user>default</user>\
             <password>{PASSWORD}</password></replica>"
        )
    };
    let shard = |ports: &[u16]| {
        let replicas: String = ports.iter().map(replica).collect();
        format!("<shard><internal_replication>true</internal_replication>{replicas}</shard>")
    };
    let all: String = tcp.chunks(tcp.len() / shards).map(shard).collect();
    let own_shard = number % shards;
    let folder = folder.display();
    format!(
        "<yandex>
  <logger><level>debug</level><log>{folder}/log</log><errorlog>{folder}/errors</errorlog></logger>
  <listen_host>127.0.0.1</listen_host>
  <http_port>{}</http_port> <tcp_port>{}</tcp_port> <interserver_http_port>{}</interserver_http_port>
  <interserver_http_host>127.0.0.1</interserver_http_host>
  <path>{folder}/data/</path> <tmp_path>{folder}/temporary/</tmp_path>
  <users_config>{folder}/users.xml</users_config>
  <default_profile>default</default_profile> <default_database>default</default_database>
  <mark_cache_size>67108864</mark_cache_size> <uncompressed_cache_size>0</uncompressed_cache_size>
  <remote_servers><mesh>{all}</mesh></remote_servers>
  <zookeeper>
    <node><host>127.0.0.1</host><port>{keeper}</port></node>
    <session_timeout_ms>{SESSION_MS}</session_timeout_ms>
  </zookeeper>
  <macros><shard>{own_shard}</shard><replica>{number}</replica></macros>
  <distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl>
</yandex>",
        own[0], own[1], own[2]
    )
}

fn users() -> String {
    format!(
        "<yandex>
  <profiles><default><max_memory_usage>1000000000</max_memory_usage></default></profiles>
  <quotas><default></default></quotas>
  <users><default>
    <password>{PASSWORD}</password>
    <networks><ip>127.0.0.1</ip></networks>
    <profile>default</profile> <quota>default</quota>
  </default></users>
</yandex>"
    )
}
