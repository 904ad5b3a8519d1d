//! Many agents: one file with included lists of hosts, and named tokens.

use crate::support::{Folder, free_port, longhaul};
use crate::watch_agent::WatchAgent;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

/// A list of hosts as Prometheus reads it.
fn write_host_list(folder: &Folder, hosts: usize) {
    let mut list = "[".to_owned();
    for number in 0..hosts {
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(
            list,
            "{comma}\n{{\"targets\": [\"192.0.2.{}:5201\"], \"labels\": {{\"name\": \"h{number}\", \
             \"groups\": \"fleet\", \"env\": \"test\"}}}}",
            number % 250
        );
    }
    fs::write(folder.file("hosts.d/list.json"), list + "\n]\n").expect("written");
}

/// A file for all agents of a fleet.
fn write_watch_file(folder: &Folder, more: &str) {
    fs::create_dir_all(folder.file("hosts.d")).expect("a folder");
    let text = format!(
        "include = \"hosts.d/*.json\"\n[agent]\narchive = \"archive.sqlite3\"\n{more}\
         [[mesh]]\nname = \"fleet\"\n\
         [[measure]]\nname = \"route\"\nkind = \"path\"\nevery = \"1 h\"\n"
    );
    fs::write(folder.file("watch.toml"), text).expect("written");
}

fn check(folder: &Folder, agent: &str, code: i32) -> String {
    let mut command = longhaul();
    command.args(["watch", "--check", "--agent", agent]).arg(folder.file("watch.toml"));
    let assert = command.assert().code(code);
    let output = assert.get_output();
    let text = if code == 0 { &output.stdout } else { &output.stderr };
    String::from_utf8(text.clone()).expect("UTF-8")
}

/// Status and body of a request with a token.
fn request(port: u16, method: &str, path: &str, token: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\
         authorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
    (status.expect("a status"), body.to_owned())
}

#[test]
fn two_hundred_hosts_come_from_one_list_and_errors_name_its_lines() {
    let folder = Folder::new("fleet_two_hundred");
    write_watch_file(&folder, "");
    write_host_list(&folder, 200);
    // Of each pair of the mesh, one end measures.
    let told = check(&folder, "h7", 0);
    assert!(told.contains("100 hosts, 200 pairs"), "{told}");
    let list = folder.file("hosts.d/list.json");
    let text = fs::read_to_string(&list).expect("the list");
    fs::write(&list, text.replace("\"name\": \"h100\"", "\"name\": \"h99\"")).expect("written");
    let told = check(&folder, "h7", 2);
    let place = "list.json:102: host.h99.name: `h99` is already the name of the host in line 101";
    assert!(told.contains(place), "{told}");
}

#[test]
fn an_agent_reads_a_list_of_hosts_again_when_it_changes() {
    let folder = Folder::new("fleet_reread");
    // The audits wake the agent, which looks at the lists when it is awake.
    let audit = "[[measure]]\nname = \"audit\"\nkind = \"host\"\nevery = \"1 s\"\n";
    write_watch_file(&folder, &format!("listen = \"127.0.0.1:{}\"\n{audit}", free_port()));
    write_host_list(&folder, 2);
    let mut agent = WatchAgent::start(&folder, &["--agent", "h0"]);
    agent.wait_for("event=watching");
    write_host_list(&folder, 20);
    let line = agent.wait_for("watch file reloaded");
    assert!(line.contains("jobs"), "{line}");
    fs::write(folder.file("hosts.d/list.json"), "[\n{").expect("written");
    let line = agent.wait_for("list.json");
    assert!(line.contains("level=warn") && line.contains("list.json:2: "), "{line}");
    agent.wait_for("keeping the previous one");
}

#[test]
fn tokens_of_a_running_agent_are_created_listed_and_revoked() {
    let folder = Folder::new("fleet_tokens");
    let port = free_port();
    let listen = format!("listen = \"127.0.0.1:{port}\"\n[api]\ntoken_file = \"operator.token\"\n");
    write_watch_file(&folder, &listen);
    write_host_list(&folder, 2);
    let operator = folder.file("operator.token");
    fs::write(&operator, "of-the-operator\n").expect("written");
    fs::set_permissions(&operator, fs::Permissions::from_mode(0o600)).expect("permissions");
    let mut agent = WatchAgent::start(&folder, &["--agent", "h0"]);
    agent.wait_for("event=watching");
    let token = |words: &[&str], code: i32| {
        let mut command = longhaul();
        command.args(["watch", "token"]).args(words).args(["--agent", "h0", "--file"]);
        let assert = command.arg(folder.file("watch.toml")).assert().code(code);
        String::from_utf8(assert.get_output().stdout.clone()).expect("UTF-8").trim().to_owned()
    };
    let reader = token(&["create", "display"], 0);
    assert_eq!(reader.len(), 32);
    token(&["create", "display"], 2);
    assert_eq!(request(port, "GET", "/api/v1/about", &reader).0, 200);
    let (status, body) = request(port, "POST", "/api/v1/runs", &reader);
    assert!(status == 403 && body.contains("this token may only read"), "{status} {body}");
    let listed = token(&["list"], 0);
    assert!(listed.contains("display") && listed.contains("read"), "{listed}");
    assert!(!listed.contains(&reader), "{listed}");
    let store = folder.file("archive.sqlite3.agent/tokens.json");
    assert_eq!(store.metadata().expect("the store").permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(store).expect("the store").contains(&reader));
    token(&["revoke", "display"], 0);
    assert_eq!(request(port, "GET", "/api/v1/about", &reader).0, 401);
    token(&["revoke", "nobody"], 2);
}

#[test]
fn a_check_tells_all_errors_of_a_file_in_one_pass() {
    let folder = Folder::new("fleet_one_pass");
    let file = folder.file("watch.toml");
    let check = |first: &str, text: &str, problems: &[&str]| {
        fs::write(&file, format!("{first}\n{text}")).expect("written");
        let assert = longhaul().args(["watch", "--check"]).arg(&file).assert().code(2);
        let told = String::from_utf8(assert.get_output().stderr.clone()).expect("UTF-8");
        for problem in problems {
            assert!(told.contains(problem), "{problem} in {told}");
        }
        let count = format!("{} problems in", problems.len());
        assert!(told.contains(&count), "{count}: {told}");
    };
    let measure = "[[measure]]\nname = \"m\"\nkind = \"throughput\"\n";
    let short = "watch.toml:9: measure.m.every: 1 s is shorter than its runs";
    let text = format!(
        "[agent]\nlisten = \"0.0.0.0:5280\"\n[[target]]\nhost = \"b\"\n{measure}every = \"1 s\"\n"
    );
    // Without a name of the agent, and with a host that is not declared.
    let missing = "watch.toml:2: agent.name: missing";
    let open = "watch.toml:3: agent.listen: `0.0.0.0:5280` can be reached from other hosts";
    let unknown = "watch.toml:5: target.b.host: unknown host `b`";
    check("", &text, &[missing, open, unknown, short]);
    // With an error of syntax, and with a file that is not there.
    let text = text.replace("0.0.0.0:5280", "nowhere");
    let wrong = "watch.toml:3: agent.listen: `nowhere` is invalid";
    check("x = [1,, 2]", &text, &["watch.toml:1: ", wrong, short]);
    check("include = \"gone.toml\"", &text, &["watch.toml:1: include: cannot read", wrong, short]);
}

/// Runs `watch init` with a list; returns what it says.
fn init(folder: &Folder, list: &str, options: &[&str], code: i32) -> String {
    let mut command = longhaul();
    command.args(["watch", "init", "--hosts"]).arg(folder.file(list));
    let assert = command.arg("--out").arg(folder.file("fleet")).args(options).assert().code(code);
    let output = assert.get_output();
    let text = [output.stdout.clone(), output.stderr.clone()].concat();
    String::from_utf8(text).expect("UTF-8")
}

#[test]
fn one_command_writes_a_valid_file_for_two_hundred_hosts() {
    let folder = Folder::new("fleet_init");
    let hosts = (0..200).map(|n| format!("h{n} 192.0.2.{}:5201\n", n % 250));
    fs::write(folder.file("list.txt"), hosts.collect::<String>()).expect("written");
    let told = init(&folder, "list.txt", &["--collector", "https://c.example.net:5280"], 0);
    let check =
        format!("longhaul watch --check {}/fleet/watch.toml --agent h0", folder.file("").display());
    assert!(told.contains(&check.replace("//", "/")), "{told}");
    for agent in ["h0", "h7", "h199"] {
        let mut command = longhaul();
        command.args(["watch", "--check", "--agent", agent]).arg(folder.file("fleet/watch.toml"));
        let assert = command.assert().code(0);
        let shown = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
        assert!(shown.contains("server") && shown.contains("200 agents in turn"), "{shown}");
    }
    for name in ["serve.token", "enrol.token"] {
        let file = folder.file(&format!("fleet/{name}"));
        assert_eq!(file.metadata().expect("a token").permissions().mode() & 0o777, 0o600);
    }
    let token = fs::read(folder.file("fleet/serve.token")).expect("a token");
    let told = init(&folder, "list.txt", &[], 2);
    assert!(told.contains("exists already") && told.contains("--force"), "{told}");
    init(&folder, "list.txt", &["--force"], 0);
    assert_eq!(fs::read(folder.file("fleet/serve.token")).expect("a token"), token);
}

#[test]
fn errors_of_a_list_of_hosts_name_its_lines_and_write_nothing() {
    let folder = Folder::new("fleet_init_errors");
    for (list, text, problem) in [
        (
            "twice.txt",
            "a 192.0.2.1\n# b\na 192.0.2.2\n",
            "twice.txt:3: host.a.name: `a` is already",
        ),
        ("address.txt", "a 192.0.2.1\nb 192.0.2.2:x\n", "address.txt:2: host.b.address: "),
        ("words.txt", "a 192.0.2.1 x\n", "words.txt:1: more than NAME and ADDRESS"),
        ("empty.txt", "# nothing\n", "empty.txt: fewer than two hosts"),
        ("broken.json", "[\n{\"targets\": 1}]", "broken.json:2: "),
    ] {
        fs::write(folder.file(list), text).expect("written");
        let told = init(&folder, list, &[], 2);
        assert!(told.contains(problem), "{problem} in {told}");
    }
    let told = init(&folder, "absent.txt", &[], 2);
    assert!(told.contains("cannot read the list of hosts"), "{told}");
    assert!(!folder.file("fleet").exists());
}

#[test]
fn a_list_of_prometheus_keeps_its_labels() {
    let folder = Folder::new("fleet_init_json");
    let list = "[{\"targets\": [\"192.0.2.1:5201\"], \"labels\": {\"name\": \"a\", \"city\": \"Prague\"}},\n\
                {\"targets\": [\"b.example.net\"]}]\n";
    fs::write(folder.file("list.json"), list).expect("written");
    init(&folder, "list.json", &[], 0);
    let written = fs::read_to_string(folder.file("fleet/hosts.json")).expect("a list");
    assert!(written.contains("Prague") && written.contains("serve.token"), "{written}");
    let mut command = longhaul();
    command.args(["watch", "--check", "--agent", "b.example.net"]);
    command.arg(folder.file("fleet/watch.toml")).assert().code(0);
}
