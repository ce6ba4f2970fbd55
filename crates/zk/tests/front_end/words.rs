//! Four-letter words: the answers that monitoring parses, and the allow-list.

use holdfast_lab::zk::{create, exists};
use holdfast_zk::{Words, ZkConfig};
use holdfast_zkwire::FourLetterWord;

use crate::authorization::guarded;
use crate::node::{Node, config};

fn line<'a>(text: &'a str, name: &str) -> &'a str {
    let found = text.lines().find_map(|line| line.strip_prefix(name));
    found.unwrap_or_else(|| panic!("{name} is missing in\n{text}"))
}

#[tokio::test]
async fn ruok_isro_and_srvr_describe_the_node() {
    let node = Node::start().await;
    assert_eq!(node.word("ruok").await, "imok");
    assert_eq!(node.word("isro").await, "rw");
    let environment = node.word("envi").await;
    assert!(line(&environment, "zookeeper.version=").starts_with("3.8.0-"), "{environment}");
    assert!(
        !line(&environment, "host.name=").is_empty()
            && !line(&environment, "os.version=").is_empty()
    );
    let before = node.service.revision();
    let server = node.word("srvr").await;
    assert!(line(&server, "Zookeeper version: ").starts_with("3.8.0-"));
    assert_eq!(line(&server, "Mode: "), "standalone");
    // The node may write at any time: its clock, for example.
    let zxid = line(&server, "Zxid: ").strip_prefix("0x").unwrap();
    let zxid = u64::from_str_radix(zxid, 16).unwrap();
    assert!((before.0..=node.service.revision().0).contains(&zxid), "{server}");
    assert!(!server.contains("Clients:"));
}

#[tokio::test]
async fn statistics_follow_the_requests() {
    let (node, mut client) = Node::with_client().await;
    client.done(create("/a", 1)).await;
    client.error(exists("/b", true)).await;
    let stat = node.word("stat").await;
    assert!(stat.contains("Clients:\n /127.0.0.1:"), "{stat}");
    assert_eq!((line(&stat, "Received: "), line(&stat, "Sent: ")), ("2", "2"));
    assert_eq!(line(&stat, "Connections: "), "2");
    let monitor = node.word("mntr").await;
    assert_eq!(line(&monitor, "zk_server_state\t"), "standalone");
    assert_eq!(line(&monitor, "zk_packets_received\t"), "2");
    assert_eq!(line(&monitor, "zk_watch_count\t"), "1");
    assert_eq!(line(&monitor, "zk_global_sessions\t"), "1");
    assert_eq!(line(&monitor, "zk_ephemerals_count\t"), "1");
    assert_eq!(line(&monitor, "zk_local_sessions\t"), "0");
    // The built-in paths are 61 bytes; the session has a name and labels, which are not part of the tree's data.
    assert_eq!(line(&monitor, "zk_approximate_data_size\t"), "63");
    let files = line(&monitor, "zk_max_file_descriptor_count\t").parse::<u64>().unwrap();
    assert!(files >= line(&monitor, "zk_open_file_descriptor_count\t").parse().unwrap());
    assert_eq!(node.metric(r#"holdfast_zk_requests_total{op="create"}"#), "1");
    assert_eq!(node.metric("holdfast_zk_requests_failed_total"), "1");
    assert_eq!(node.word("srst").await, "Server stats reset.\n");
    assert_eq!(line(&node.word("srvr").await, "Received: "), "0");
}

#[tokio::test]
async fn connections_sessions_and_watches_are_listed_with_the_session_id() {
    let (node, mut client) = Node::with_client().await;
    client.done(create("/a", 1)).await;
    client.error(exists("/b", true)).await;
    let session = format!("{:#x}", client.session());
    let connections = node.word("cons").await;
    assert!(connections.contains(&format!("sid={session},lop=EXIS,")), "{connections}");
    let dump = node.word("dump").await;
    assert!(dump.contains(&format!("{session}:\n\t/a\n")), "{dump}");
    assert_eq!(node.word("wchs").await, "1 connections watching 1 paths\nTotal watches:1\n");
    assert_eq!(node.word("wchc").await, format!("{session}\n\t/b\n\n"));
    assert_eq!(node.word("wchp").await, format!("/b\n\t{session}\n\n"));
    assert_eq!(node.word("crst").await, "Connection stats reset.\n");
    assert!(node.word("cons").await.contains("recved=0"));
}

#[tokio::test]
async fn conf_and_dirs_show_the_configuration() {
    let node = Node::start().await;
    let told = node.word("conf").await;
    assert_eq!(line(&told, "clientPort="), node.address.port().to_string());
    assert_eq!(line(&told, "tickTime="), "500");
    assert_eq!(
        (line(&told, "minSessionTimeout="), line(&told, "maxSessionTimeout=")),
        ("1000", "10000")
    );
    let sizes = node.word("dirs").await;
    assert!(line(&sizes, "datadir_size: ").parse::<u64>().unwrap() > 0);
}

#[tokio::test]
async fn a_disallowed_word_is_rejected_and_a_word_with_a_newline_is_accepted() {
    let node = Node::start_with(ZkConfig { words: Words::default(), ..config() }).await;
    assert_eq!(
        node.word("dump").await,
        "dump is not executed because it is not in the whitelist.\n"
    );
    assert_eq!(node.word("ruok\n").await, "imok");
    assert_eq!(node.word("ruok\r\n").await, "imok");
}

/// A word has no access token, so only a certificate proves the permission; here there is none.
#[tokio::test]
async fn with_authorization_a_word_needs_a_permission_also_on_the_nodes_own_machine() {
    let node = Node::start().await;
    guarded(&node).await;
    for word in FourLetterWord::ALL {
        let answer = node.word(word.as_str()).await;
        let needs_nothing =
            matches!(word, FourLetterWord::Ruok | FourLetterWord::Isro | FourLetterWord::Srvr);
        let refused = answer == format!("{} needs the permission metrics read.\n", word.as_str());
        assert_eq!(refused, !needs_nothing, "{answer}");
    }
}
