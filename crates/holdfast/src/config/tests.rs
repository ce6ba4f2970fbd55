//! One test for each configuration error: the message names the place, the key and the fix.

use std::path::PathBuf;

use holdfast_service::ServiceConfig;

use super::*;

mod tls;

const GOOD: &str = r#"
cluster = "holdfast"
node = 2
data_dir = "/var/lib/holdfast"
security.mode = "open"

[[member]]
id = 1
http = "10.0.0.1:7400"
peer = "10.0.0.1:7401"
zookeeper = "10.0.0.1:7402"

[[member]]
id = 2
http = "10.0.0.2:7400"
peer = "10.0.0.2:7401"
zookeeper = "10.0.0.2:7402"

[[member]]
id = 3
http = "10.0.0.3:7400"
peer = "10.0.0.3:7401"
zookeeper = "10.0.0.3:7402"
"#;

struct Attempt {
    dir: tempfile::TempDir,
    sources: ConfigSources,
}

/// A valid attempt with this file text, no environment and no flags.
fn file(text: &str) -> Attempt {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.toml");
    std::fs::write(&path, text).unwrap();
    Attempt {
        sources: ConfigSources { file: path, environment: Vec::new(), flags: Vec::new() },
        dir,
    }
}

impl Attempt {
    fn env(mut self, name: &str, value: &str) -> Self {
        self.sources.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    fn flag(mut self, flag: &str, key: &str, value: &str) -> Self {
        self.sources = self.sources.with_flag(flag, key, Some(value.to_owned()));
        self
    }

    fn load(&self) -> Config {
        Config::load(&self.sources).unwrap()
    }

    /// Returns the error, without the name of the temporary directory.
    fn error(&self) -> String {
        let message = Config::load(&self.sources).unwrap_err().to_string();
        message.replace(&format!("{}/", self.dir.path().display()), "")
    }
}

/// The valid file with one replacement.
fn with(from: &str, to: &str) -> Attempt {
    assert!(GOOD.contains(from));
    file(&GOOD.replacen(from, to, 1))
}

fn assert_contains(error: &str, pieces: &[&str]) {
    for piece in pieces {
        assert!(error.contains(piece), "{error:?} does not contain {piece:?}");
    }
}

#[test]
fn a_minimal_file_gets_the_defaults() {
    let config = file(GOOD).load();
    assert_eq!(config.node, NodeId(2));
    assert_eq!(config.members.len(), 3);
    assert_eq!(config.http_listen.to_string(), "10.0.0.2:7400");
    assert_eq!(config.peer_listen.to_string(), "10.0.0.2:7401");
    assert_eq!(config.heartbeat, Timing::default().heartbeat);
    assert_eq!(config.disk_reserve, 64 << 20);
    assert_eq!(config.tree_bytes_max, ServiceConfig::default().tree_bytes_max);
    let (idle, every) = (config.container_idle, config.sweep_every);
    assert_eq!((idle, every), (Duration::from_mins(1), Duration::from_secs(10)));
    assert_eq!(config.log_format, LogFormat::Auto);
}

#[test]
fn the_environment_overrides_the_file_and_flags_override_both() {
    let text = format!("{GOOD}\n[raft]\nheartbeat = \"50ms\"\n");
    let config = file(&text).load();
    assert_eq!(config.heartbeat, Duration::from_millis(50));
    let config =
        file(&text).env("HOLDFAST_RAFT_HEARTBEAT", "60ms").env("HOLDFAST_NODE", "3").load();
    assert_eq!((config.heartbeat, config.node), (Duration::from_millis(60), NodeId(3)));
    let config = file(&text)
        .env("HOLDFAST_NODE", "3")
        .flag("--node", "node", "1")
        .flag("--data-dir", "data_dir", "/other")
        .load();
    assert_eq!((config.node, config.data_dir), (NodeId(1), PathBuf::from("/other")));
}

#[test]
fn traces_need_an_endpoint_and_have_a_default_share() {
    assert_eq!(file(GOOD).load().traces, None);
    let with = |keys: &str| file(&format!("{GOOD}\n[traces]\n{keys}\n"));
    let endpoint = "endpoint = \"https://collector:4318/\"";
    let traces = with(endpoint).load().traces.unwrap();
    assert_eq!((traces.endpoint.as_str(), traces.sample), ("https://collector:4318", 0.01));
    for (sample, expected) in [("0", 0.0), ("1", 1.0), ("0.5", 0.5), ("\"0.25\"", 0.25)] {
        let traces = with(&format!("{endpoint}\nsample = {sample}")).load().traces.unwrap();
        assert!((traces.sample - expected).abs() < f64::EPSILON, "{sample}");
    }
    let rejected = |keys: &str, pieces: &[&str]| assert_contains(&with(keys).error(), pieces);
    rejected("sample = 0.5", &["traces.sample needs traces.endpoint", "or remove"]);
    for sample in ["2", "-0.1", "1.5", "nan", "true", "\"all\""] {
        let keys = format!("{endpoint}\nsample = {sample}");
        rejected(&keys, &["node.toml: traces.sample", "a number from 0 to 1"]);
    }
    for url in ["collector:4318", "ftp://collector", "/v1/traces", "http://", "not a url"] {
        let keys = format!("endpoint = \"{url}\"");
        rejected(&keys, &["node.toml: traces.endpoint", "\"http://127.0.0.1:4318\""]);
    }
    rejected("endpoint = \"http://me:secret@c:4318\"", &["a password", "traces.headers_file"]);
    rejected("endpoint = \"http://c:4318/v1/traces\"", &["the node adds /v1/traces"]);
    let missing = format!("{endpoint}\nheaders_file = \"/no/such/file\"");
    rejected(&missing, &["traces.headers_file: cannot read /no/such/file", "name a file"]);
}

#[test]
fn a_file_of_headers_has_one_header_a_line() {
    let read = |text: &str| {
        let headers = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(headers.path(), text).unwrap();
        let keys = format!("endpoint = \"http://c:4318\"\nheaders_file = {:?}", headers.path());
        let attempt = file(&format!("{GOOD}\n[traces]\n{keys}\n"));
        Config::load(&attempt.sources).map(|config| config.traces.unwrap().headers().unwrap())
    };
    let headers = read("# team\n\nAuthorization: Bearer a:b\nx-team:storage\n").unwrap();
    assert_eq!(
        (headers["Authorization"].as_str(), headers["x-team"].as_str()),
        ("Bearer a:b", "storage")
    );
    for line in ["Bearer a", "a b: c", ": c", "name: \u{1}"] {
        let error = read(&format!("a: b\n{line}")).unwrap_err().to_string();
        assert_contains(&error, &["line 2 is not a header: write NAME: VALUE"]);
    }
}

#[test]
fn listening_at_another_address_than_the_advertised_one_is_possible() {
    let config = file(&format!(
        "{GOOD}\n[http]\nlisten = \"0.0.0.0:7400\"\n[raft]\nlisten = \"0.0.0.0:7401\"\n"
    ))
    .load();
    assert_eq!(config.http_listen.to_string(), "0.0.0.0:7400");
    assert_eq!(config.peer_listen.to_string(), "0.0.0.0:7401");
}

#[test]
fn the_zookeeper_front_end_has_the_address_of_the_member_and_the_defaults_of_zookeeper() {
    let zookeeper = file(GOOD).load().zookeeper.unwrap();
    assert_eq!(zookeeper.listen.to_string(), "10.0.0.2:7402");
    assert_eq!(
        (zookeeper.tick, zookeeper.connections_per_address_max),
        (Duration::from_secs(2), 60)
    );
    assert_eq!((zookeeper.frame_max, zookeeper.requires_credential), (1_048_575, true));
    let text = format!(
        "{GOOD}\n[zookeeper]\nlisten = \"0.0.0.0:7402\"\ntick = \"1s\"\nconnections_per_address_max = 0\n\
         frame_max = \"64KiB\"\nfour_letter_commands = \"*\"\nauthentication = \"optional\"\n"
    );
    let zookeeper = file(&text).load().zookeeper.unwrap();
    assert_eq!(zookeeper.listen.to_string(), "0.0.0.0:7402");
    assert_eq!(
        (zookeeper.tick, zookeeper.connections_per_address_max),
        (Duration::from_secs(1), 0)
    );
    assert_eq!((zookeeper.frame_max, zookeeper.words), (64 << 10, holdfast_zk::Words::all()));
    assert!(!zookeeper.requires_credential);
    assert_eq!(file(&format!("{GOOD}\n[zookeeper]\nenabled = false\n")).load().zookeeper, None);
    assert_eq!(file(GOOD).env("HOLDFAST_ZOOKEEPER_ENABLED", "false").load().zookeeper, None);
}

#[test]
fn values_of_the_zookeeper_front_end_have_bounds() {
    for (line, expected) in [
        ("tick = \"100ms\"", "500ms to 72m"),
        ("tick = 2000", "bare number"),
        ("frame_max = \"2MiB\"", "1KiB to 1MiB"),
        ("four_letter_commands = \"ruok,kill\"", "kill"),
        ("four_letter_commands = \"\"", "empty"),
        ("enabled = \"perhaps\"", "true or false"),
        ("enabled = 1", "true or false"),
        ("authentication = \"no\"", "\"required\" or \"optional\""),
        ("connections_per_address_max = -1", "whole number"),
        ("connections_per_address_max = true", "whole number"),
        ("tik = \"1s\"", "did you mean \"zookeeper.tick\""),
    ] {
        let error = file(&format!("{GOOD}\n[zookeeper]\n{line}\n")).error();
        assert_contains(&error, &["node.toml", "zookeeper.", expected]);
    }
}

#[test]
fn a_missing_file_is_named() {
    let mut attempt = file(GOOD);
    attempt.sources.file = attempt.dir.path().join("absent.toml");
    assert_contains(&attempt.error(), &["absent.toml", "cannot read", "--config"]);
}

#[test]
fn invalid_toml_is_reported_with_its_line() {
    assert_contains(
        &with("node = 2", "node = ").error(),
        &["node.toml", "not valid TOML", "line 3"],
    );
}

#[test]
fn an_unknown_key_names_the_file_and_the_most_similar_key() {
    let error = with("data_dir", "datadir").error();
    assert_contains(&error, &["node.toml", "\"datadir\"", "did you mean \"data_dir\"?"]);
}

#[test]
fn an_unknown_key_in_a_section_names_the_most_similar_key() {
    let error = file(&format!("{GOOD}\n[raft]\nhartbeat = \"50ms\"\n")).error();
    assert_contains(
        &error,
        &["node.toml", "\"raft.hartbeat\"", "did you mean \"raft.heartbeat\"?"],
    );
}

#[test]
fn an_unknown_section_is_rejected() {
    let error = file(&format!("{GOOD}\n[rafd]\nheartbeat = \"50ms\"\n")).error();
    assert_contains(&error, &["node.toml", "unknown key \"rafd\""]);
}

#[test]
fn an_unknown_key_of_a_member_names_the_most_similar_key() {
    let error = with("zookeeper = ", "zookeper = ").error();
    assert_contains(&error, &["\"member.zookeper\"", "did you mean \"member.zookeeper\"?"]);
}

#[test]
fn an_unknown_variable_names_the_most_similar_key() {
    let error = file(GOOD).env("HOLDFAST_DATADIR", "/x").error();
    assert_contains(&error, &["variable HOLDFAST_DATADIR", "did you mean \"HOLDFAST_DATA_DIR\"?"]);
}

#[test]
fn variables_of_clients_and_of_kubernetes_are_ignored() {
    file(GOOD)
        .env("HOLDFAST_ADDR", "127.0.0.1:7400")
        .env("HOLDFAST_USER", "alice:secret")
        .env("HOLDFAST_TOKENS", "orders 7")
        .env("HOLDFAST_SERVICE_HOST", "10.96.0.1")
        .env("HOLDFAST_PORT", "tcp://10.96.0.1:7400")
        .env("HOLDFAST_PORT_7400_TCP_ADDR", "10.96.0.1")
        .load();
}

#[test]
fn a_duration_without_a_unit_is_rejected_with_the_fix() {
    let error = file(&format!("{GOOD}\n[raft]\nheartbeat = 150\n")).error();
    assert_contains(&error, &["node.toml", "raft.heartbeat", "bare number", "\"150ms\""]);
    let error = file(GOOD).env("HOLDFAST_RAFT_HEARTBEAT", "150").error();
    assert_contains(&error, &["HOLDFAST_RAFT_HEARTBEAT", "raft.heartbeat", "150"]);
}

#[test]
fn threads_are_half_the_processors_by_default() {
    let processors = std::thread::available_parallelism().unwrap().get();
    let threads = file(GOOD).load().threads;
    assert!(threads >= 1 && threads <= processors, "{threads} of {processors}");
    assert_eq!(file(GOOD).env("HOLDFAST_THREADS", "6").load().threads, 6);
    for wrong in ["0", "257", "many"] {
        let error = file(GOOD).env("HOLDFAST_THREADS", wrong).error();
        assert_contains(&error, &["HOLDFAST_THREADS", "threads", "write"]);
    }
}

#[test]
fn a_priority_is_a_number_from_0_to_9() {
    let priority = |value: &str| file(GOOD).env("HOLDFAST_RAFT_PRIORITY", value);
    assert_eq!([file(GOOD).load().priority, priority("9").load().priority], [5, 9]);
    for bad in ["10", "-1", "256", "high"] {
        assert_contains(&priority(bad).error(), &["HOLDFAST_RAFT_PRIORITY", "number from 0"]);
    }
}

#[test]
fn a_size_without_a_unit_is_rejected_with_the_fix() {
    let error = file(&format!("{GOOD}\n[storage]\ndisk_reserve = 64\n")).error();
    assert_contains(&error, &["storage.disk_reserve", "bare number", "\"64MiB\""]);
    let error = file(GOOD).env("HOLDFAST_STORAGE_DISK_RESERVE", "64").error();
    assert_contains(&error, &["HOLDFAST_STORAGE_DISK_RESERVE", "bare number", "\"64MiB\""]);
}

#[test]
fn a_size_with_an_ambiguous_or_unknown_unit_is_rejected_with_the_fix() {
    let size = |text: &str| file(GOOD).env("HOLDFAST_STORAGE_DISK_RESERVE", text);
    assert_contains(&size("64MB").error(), &["ambiguous", "\"64MiB\""]);
    assert_contains(&size("64 parsecs").error(), &["not a size", "KiB"]);
    assert_eq!(["1 GiB", "8388608B"].map(|n| size(n).load().disk_reserve), [1 << 30, 8 << 20]);
    assert_contains(&size("8191KiB").error(), &["less than the log needs", "8MiB or more"]);
}

#[test]
fn a_missing_required_key_is_named_with_its_variable() {
    let error = with("cluster = \"holdfast\"", "").error();
    assert_contains(&error, &["node.toml", "cluster is missing", "HOLDFAST_CLUSTER"]);
}

#[test]
fn a_file_without_members_is_rejected() {
    let error = file("cluster = \"a\"\nnode = 1\ndata_dir = \"/d\"\n").error();
    assert_contains(&error, &["member is missing", "[[member]]", "zookeeper"]);
}

#[test]
fn a_member_without_an_address_is_rejected() {
    let error = with("peer = \"10.0.0.1:7401\"", "").error();
    assert_contains(&error, &["member.peer", "is missing", "add `peer"]);
}

#[test]
fn a_node_that_is_not_a_member_is_rejected() {
    let error = with("node = 2", "node = 4").error();
    assert_contains(&error, &["node = 4", "1, 2, 3", "HOLDFAST_NODE"]);
}

#[test]
fn a_node_id_below_one_is_rejected() {
    assert_contains(&with("node = 2", "node = 0").error(), &["node", "from 1"]);
    assert_contains(&with("node = 2", "node = \"two\"").error(), &["node", "from 1"]);
}

#[test]
fn a_duplicate_id_is_rejected() {
    let error = with("id = 3", "id = 1").error();
    assert_contains(&error, &["member.id", "1 is given twice"]);
}

#[test]
fn a_duplicate_address_is_rejected() {
    let error = with("10.0.0.3:7401", "10.0.0.1:7400").error();
    assert_contains(&error, &["10.0.0.1:7400", "http of member 1", "peer of member 3"]);
}

#[test]
fn a_malformed_address_is_rejected() {
    let error = with("\"10.0.0.3:7401\"", "\"10.0.0.3\"").error();
    assert_contains(&error, &["member.peer", "has no port", "127.0.0.1:7400"]);
    let error = with("\"10.0.0.3:7401\"", "7401").error();
    assert_contains(&error, &["member.peer", "bare number"]);
}

#[test]
fn an_even_number_of_members_is_rejected() {
    let block = "[[member]]\nid = 4\nhttp = \"d:1\"\npeer = \"d:2\"\nzookeeper = \"d:3\"\n";
    let error = file(&format!("{GOOD}\n{block}")).error();
    assert_contains(&error, &["4 members survive no more failures than 3", "3 or 5"]);
}

/// A member whose file `holdfast join` wrote names all members of the running cluster, also after its disk was emptied.
#[test]
fn a_member_that_joins_may_name_an_even_number_of_members() {
    let block = "[[member]]\nid = 4\nhttp = \"d:1\"\npeer = \"d:2\"\nzookeeper = \"d:3\"\n";
    let config = file(&format!("bootstrap = \"join\"\n{GOOD}\n{block}")).load();
    assert_eq!((config.members.len(), config.may_create_cluster()), (4, false));
}

#[test]
fn scheduled_backups_need_a_time_and_a_directory() {
    let with = |lines: &str| {
        file(
            &format!("{GOOD}\n")
                .replace("[[member]]\nid = 1\n", &format!("{lines}\n[[member]]\nid = 1\n")),
        )
    };
    assert_eq!(file(GOOD).load().backup, None);
    let key = "age1xktlgkj0tjmwvmdn7mh3swlxe3dlrsmwgt37a6dsj6pc595qw44qjhdzdl";
    let config = with(&format!(
        "backup.every = \"6h\"\nbackup.directory = \"/b\"\nbackup.recipient = \"{key}\""
    ))
    .load();
    let backup = config.backup.unwrap();
    assert_eq!((backup.every, backup.keep), (Duration::from_hours(6), 14));
    assert_eq!(backup.recipient.unwrap().to_string(), key);
    let from_environment = file(GOOD)
        .env("HOLDFAST_BACKUP_EVERY", "1h")
        .env("HOLDFAST_BACKUP_DIRECTORY", "/b")
        .env("HOLDFAST_BACKUP_KEEP", "3");
    assert_eq!(from_environment.load().backup.unwrap().keep, 3);
    for (lines, part) in [
        ("backup.every = \"6h\"", "backup.every needs backup.directory"),
        ("backup.keep = 3", "need backup.every"),
        ("backup.every = \"6h\"\nbackup.directory = \"/b\"\nbackup.keep = 0", "from 1 to 10000"),
        (
            "backup.every = \"6h\"\nbackup.directory = \"/b\"\nbackup.recipient = \"age1x\"",
            "holdfast backup key",
        ),
    ] {
        assert_contains(&with(lines).error(), &[part]);
    }
}

#[test]
fn only_loopback_addresses_permit_a_new_cluster_by_default() {
    assert!(!file(GOOD).load().may_create_cluster());
    assert!(file(&GOOD.replace("\"10.0.0", "\"127.0.0")).load().may_create_cluster());
    let listening =
        file(&GOOD.replace("\"10.0.0", "\"127.0.0")).env("HOLDFAST_RAFT_LISTEN", "0.0.0.0:1");
    assert!(!listening.load().may_create_cluster());
    assert!(file(GOOD).env("HOLDFAST_BOOTSTRAP", "new").load().may_create_cluster());
    let error = file(GOOD).env("HOLDFAST_BOOTSTRAP", "existing").error();
    assert_contains(&error, &["HOLDFAST_BOOTSTRAP", "\"new\" or \"join\""]);
}

#[test]
fn too_many_members_are_rejected() {
    let block = |id: u32| {
        format!(
            "[[member]]\nid = {id}\nhttp = \"n{id}:1\"\npeer = \"n{id}:2\"\nzookeeper = \"n{id}:3\"\n"
        )
    };
    let text = GOOD.to_owned() + &(4..=9).map(block).collect::<String>();
    assert_contains(&file(&text).error(), &["9 members are too many", "3 or 5"]);
}

#[test]
fn a_bad_cluster_name_is_rejected() {
    let error = with("\"holdfast\"", "\"hold fast\"").error();
    assert_contains(&error, &["cluster", "\"hold fast\"", "letters, digits"]);
}

#[test]
fn an_election_shorter_than_three_heartbeats_is_rejected() {
    let text = format!("{GOOD}\n[raft]\nheartbeat = \"150ms\"\nelection_min = \"300ms\"\n");
    assert_contains(&file(&text).error(), &["raft.election_min", "450ms"]);
}

#[test]
fn an_election_without_spread_is_rejected() {
    let text = format!("{GOOD}\n[raft]\nelection_min = \"500ms\"\nelection_max = \"500ms\"\n");
    assert_contains(&file(&text).error(), &["raft.election_max", "1s"]);
}

#[test]
fn extreme_heartbeats_and_elections_are_rejected() {
    assert_contains(&file(GOOD).env("HOLDFAST_RAFT_HEARTBEAT", "1ms").error(), &["10ms or more"]);
    assert_contains(&file(GOOD).env("HOLDFAST_RAFT_ELECTION_MAX", "1h").error(), &["60s or less"]);
}

#[test]
fn a_scrub_without_a_pause_is_rejected() {
    assert_contains(&file(GOOD).env("HOLDFAST_STORAGE_SCRUB_EVERY", "0s").error(), &["1s or more"]);
}

#[test]
fn a_mistyped_log_level_or_format_is_rejected() {
    let error = file(GOOD).env("HOLDFAST_LOG_LEVEL", "inof").error();
    assert_contains(&error, &["log.level", "\"inof\"", "info"]);
    let error = file(GOOD).env("HOLDFAST_LOG_FORMAT", "pretty").error();
    assert_contains(&error, &["log.format", "\"pretty\"", "\"json\""]);
    file(GOOD).env("HOLDFAST_LOG_LEVEL", "warn,holdfast_raft=debug").load();
}

#[test]
fn every_key_is_documented() {
    let docs = include_str!("../../../../docs/configuration.md");
    for key in schema::KEYS {
        assert!(
            docs.contains(&format!("| `{key}` |")),
            "docs/configuration.md does not explain {key}"
        );
    }
    for key in schema::MEMBER_KEYS {
        assert!(
            docs.contains(&format!("| `{key}` |")),
            "docs/configuration.md does not explain member.{key}"
        );
    }
}

#[test]
fn the_file_of_the_kubernetes_overlay_is_a_valid_configuration() {
    let text = include_str!("../../../../cluster-config/kubernetes/overlays/three/node.toml");
    let config = file(text)
        .env("HOLDFAST_NODE", "3")
        .env("HOLDFAST_DATA_DIR", "/data")
        .env("HOLDFAST_HTTP_LISTEN", "0.0.0.0:7400")
        .env("HOLDFAST_RAFT_LISTEN", "0.0.0.0:7401")
        .env("HOLDFAST_TLS_CERT", "/pki/node-3.pem")
        .env("HOLDFAST_TLS_KEY", "/pki/node-3.key")
        .load();
    assert!(config.requires_authentication());
    assert_eq!(config.members[&NodeId(3)].peer.to_string(), "holdfast-3.holdfast-peers:7401");
}

#[test]
fn loopback_addresses_need_nothing() {
    let one = "cluster = \"c\"\nnode = 1\ndata_dir = \"d\"\n[[member]]\nid = 1\n";
    for host in ["127.0.0.1", "127.8.9.10", "[::1]", "localhost"] {
        let addresses =
            format!("http = \"{host}:1\"\npeer = \"{host}:2\"\nzookeeper = \"{host}:3\"\n");
        let config = file(&format!("{one}{addresses}")).load();
        assert!(!config.requires_authentication(), "{host}");
    }
    for host in ["0.0.0.0", "[::]", "192.168.0.1", "localhost.example.com"] {
        let addresses =
            format!("http = \"{host}:1\"\npeer = \"{host}:2\"\nzookeeper = \"{host}:3\"\n");
        assert!(
            file(&format!("{one}{addresses}")).error().contains("refusing to listen"),
            "{host}"
        );
    }
}
