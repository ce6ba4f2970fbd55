//! Listeners for other machines: TLS, client certificates, and what a node without them refuses.

use super::*;

#[test]
fn an_address_of_other_machines_needs_tls_and_then_calls_need_a_permission() {
    let secure = GOOD.replace("security.mode = \"open\"\n", "");
    let error = file(&secure).error();
    assert!(error.contains("refusing to listen on 10.0.0.2:7400 without TLS"), "{error}");
    for choice in ["1. enable TLS", "http.listen = \"127.0.0.1:7400\"", "security.mode = \"open\""]
    {
        assert!(error.contains(choice), "{error}");
    }
    let tls = "\n[tls]\ncert = \"/c\"\nkey = \"/k\"\nca = \"/a\"\n";
    assert!(file(&format!("{secure}{tls}")).load().requires_authentication());
    // One listener without TLS is enough for a refusal, and its key is named.
    for (section, key) in [("raft", "raft.listen"), ("zookeeper", "zookeeper.listen")] {
        let error = file(&format!("{secure}{tls}[{section}]\ntls = \"off\"\n")).error();
        assert!(error.contains(key), "{error}");
    }
    // Without TLS no client can show a certificate.
    for section in ["http", "zookeeper"] {
        let key = "client_certificates = \"require\"\n";
        let plain = format!("[{section}]\ntls = \"off\"\n{key}");
        for text in [format!("{GOOD}[{section}]\n{key}"), format!("{GOOD}{tls}{plain}")] {
            let error = file(&text).error();
            assert!(error.contains(&format!("{section}.client_certificates needs TLS")), "{error}");
        }
    }
    let allow = format!("{tls}[http]\ntls = \"allow\"\n");
    assert!(file(&format!("{secure}{allow}")).error().contains("10.0.0.2:7400"));
    let migrating = GOOD.replace("\"open\"", "\"migrating\"");
    let config = file(&format!("{migrating}{allow}")).load();
    assert!(!config.requires_authentication() && config.unprotected().is_some());
    assert!(file(&migrating).error().contains("without TLS"));
    assert!(!file(GOOD).load().requires_authentication());
}
