//! Both sides of connections against good and bad files, and against honest and hostile callers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_tls::{
    AcceptError, CertificateInfo, ClientCertificates, MaybeTlsStream, PeerTls, TlsAcceptor,
    TlsConfig, TlsFiles, TlsMode, TlsVersion, certificates_of,
};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, SanType, date_time_ymd,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{HandshakeKind, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A CA, and a directory with files of one listener.
struct Lab {
    issuer: Issuer<'static, KeyPair>,
    dir: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let lab = Self { issuer: issuer("CA"), dir: tempfile::tempdir().unwrap() };
        lab.write("ca.pem", &ca(&lab.issuer));
        lab.certify("node", |_| {});
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Writes a certificate of the CA and its key.
    fn certify(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) {
        let (certificate, key) = certificate(&self.issuer, name, change);
        self.write(&format!("{name}.pem"), &certificate);
        self.write(&format!("{name}.key"), &key);
    }

    fn config(&self) -> TlsConfig {
        let files = TlsFiles {
            certificate: self.path("node.pem"),
            key: self.path("node.key"),
            ca: Some(self.path("ca.pem")),
        };
        TlsConfig {
            files,
            mode: TlsMode::Require,
            client_certificates: ClientCertificates::Request,
            min_version: TlsVersion::V13,
        }
    }

    #[track_caller]
    fn rejected(&self, words: &str) {
        let error = TlsAcceptor::open(self.config()).err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
    }

    /// A client that trusts the CA, with the certificate of this name.
    fn client(&self, identity: Option<&str>) -> tokio_rustls::TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(read_certificate(&self.path("ca.pem"))).unwrap();
        let builder = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let chain = vec![read_certificate(&self.path(&format!("{name}.pem")))];
                let key = fs::read(self.path(&format!("{name}.key"))).unwrap();
                let key = PrivateKeyDer::from_pem_slice(&key).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        Arc::new(config).into()
    }
}

fn read_certificate(path: &Path) -> CertificateDer<'static> {
    certificates_of(&fs::read(path).unwrap()).unwrap().remove(0)
}

fn issuer(name: &str) -> Issuer<'static, KeyPair> {
    Issuer::new(ca_params(name), KeyPair::generate().unwrap())
}

fn ca_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

fn ca(issuer: &Issuer<'static, KeyPair>) -> String {
    ca_params("CA").self_signed(issuer.key()).unwrap().pem()
}

fn certificate(
    issuer: &Issuer<'static, KeyPair>,
    name: &str,
    change: impl FnOnce(&mut CertificateParams),
) -> (String, String) {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "shop");
    params.distinguished_name.push(DnType::CommonName, name);
    params.subject_alt_names = vec![SanType::DnsName("localhost".try_into().unwrap())];
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, issuer).unwrap().pem(), key.serialize_pem())
}

/// Connects a caller with an acceptor, and returns what the acceptor returns.
async fn accept(
    acceptor: &TlsAcceptor,
    caller: impl AsyncFnOnce(TcpStream),
) -> Result<MaybeTlsStream, AcceptError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = async {
        let (stream, _) = listener.accept().await.unwrap();
        acceptor.accept(stream).await
    };
    let calling = async { caller(TcpStream::connect(address).await.unwrap()).await };
    let both = async { tokio::join!(accepting, calling).0 };
    tokio::time::timeout(TIMEOUT, both).await.unwrap()
}

async fn handshake(connector: &tokio_rustls::TlsConnector, stream: TcpStream) {
    let name = ServerName::try_from("localhost").unwrap();
    if let Ok(mut stream) = connector.connect(name, stream).await {
        drop(stream.write_all(b"hello").await);
    }
}

#[test]
fn each_unusable_file_has_its_own_error() {
    let lab = Lab::new();
    assert!(TlsAcceptor::open(lab.config()).is_ok());
    let other = issuer("another CA");
    let (certificate, key) = certificate(&other, "node", |_| {});
    let [own_certificate, own_key] =
        ["node.pem", "node.key"].map(|file| fs::read_to_string(lab.path(file)).unwrap());

    lab.write("node.key", &key);
    lab.rejected("does not fit");
    lab.write("node.pem", &certificate);
    lab.rejected("is not signed by a certificate in");
    lab.write("node.pem", &own_certificate);
    lab.write("node.key", "nothing");
    lab.rejected("has no private key");
    lab.write("node.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n");
    lab.rejected("is encrypted");
    lab.write("node.key", &own_key);
    fs::set_permissions(lab.path("node.key"), fs::Permissions::from_mode(0o644)).unwrap();
    lab.rejected("chmod 600");
    fs::remove_file(lab.path("node.key")).unwrap();
    lab.rejected("cannot read");
    lab.write("node.key", &own_key);
    lab.write("node.pem", "nothing");
    lab.rejected("has no certificate");
    lab.certify("node", |params| params.not_after = date_time_ymd(2020, 1, 1));
    lab.rejected("expired at");
    lab.certify("node", |params| params.not_before = date_time_ymd(2200, 1, 1));
    lab.rejected("is not valid before");
    lab.certify("node", |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    lab.rejected("as a server");
    lab.write("ca.pem", "nothing");
    lab.certify("node", |_| {});
    lab.rejected("ca.pem has no certificate");
}

#[tokio::test]
async fn a_caller_with_a_certificate_is_known_by_its_subject() {
    let lab = Lab::new();
    lab.certify("ci", |_| {});
    let acceptor = TlsAcceptor::open(lab.config()).unwrap();
    let client = lab.client(Some("ci"));
    let accepted = accept(&acceptor, async |stream| handshake(&client, stream).await).await;
    assert_eq!(accepted.unwrap().certificate().unwrap().subject, "CN=ci,O=shop");
    let client = lab.client(None);
    let accepted = accept(&acceptor, async |stream| handshake(&client, stream).await).await;
    assert!(accepted.unwrap().certificate().is_none());
}

#[tokio::test]
async fn a_certificate_of_another_ca_and_a_missing_required_one_are_rejected() {
    let lab = Lab::new();
    let (certificate, key) = certificate(&issuer("another CA"), "ci", |_| {});
    lab.write("ci.pem", &certificate);
    lab.write("ci.key", &key);
    let acceptor = TlsAcceptor::open(lab.config()).unwrap();
    let client = lab.client(Some("ci"));
    let accepted = accept(&acceptor, async |stream| handshake(&client, stream).await).await;
    assert!(matches!(accepted, Err(AcceptError::Handshake(_))), "{accepted:?}");
    let required = TlsConfig { client_certificates: ClientCertificates::Require, ..lab.config() };
    let acceptor = TlsAcceptor::open(required).unwrap();
    let client = lab.client(None);
    let accepted = accept(&acceptor, async |stream| handshake(&client, stream).await).await;
    assert!(matches!(accepted, Err(AcceptError::Handshake(_))), "{accepted:?}");
}

/// Neither its names nor its serial number are known, so no check of them could refuse it.
#[tokio::test]
async fn a_caller_whose_certificate_cannot_be_read_is_rejected() {
    let lab = Lab::new();
    let unit = DnType::OrganizationalUnitName;
    lab.certify("ci", |params| params.distinguished_name.push(unit, "u".repeat(1_025)));
    let acceptor = TlsAcceptor::open(lab.config()).unwrap();
    let client = lab.client(Some("ci"));
    let accepted = accept(&acceptor, async |stream| handshake(&client, stream).await).await;
    assert!(matches!(accepted, Err(AcceptError::Handshake(_))), "{accepted:?}");
}

/// TLS verifies a certificate only in a full handshake.
#[tokio::test]
async fn a_resumed_session_does_not_outlive_its_certificate() {
    let lab = Lab::new();
    let end = SystemTime::now() + Duration::from_secs(4);
    lab.certify("ci", |params| params.not_after = end.into());
    let acceptor = TlsAcceptor::open(lab.config()).unwrap();
    let client = lab.client(Some("ci"));
    let meet = async || {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = async {
            let mut accepted = acceptor.accept(listener.accept().await.unwrap().0).await;
            if let Ok(stream) = &mut accepted {
                stream.write_all(b"hello").await.unwrap();
                stream.flush().await.unwrap();
            }
            accepted
        };
        let calling = async {
            let name = ServerName::try_from("localhost").unwrap();
            let stream = TcpStream::connect(address).await.unwrap();
            let mut stream = client.connect(name, stream).await.unwrap();
            // The ticket comes before the first byte.
            drop(stream.read_u8().await);
            stream.get_ref().1.handshake_kind()
        };
        let both = async { tokio::join!(accepting, calling) };
        tokio::time::timeout(TIMEOUT, both).await.unwrap()
    };
    let (accepted, kind) = meet().await;
    assert!(accepted.is_ok() && kind == Some(HandshakeKind::Full), "{accepted:?} {kind:?}");
    let (accepted, kind) = meet().await;
    assert!(accepted.is_ok() && kind == Some(HandshakeKind::Resumed), "{accepted:?} {kind:?}");
    while let Ok(left) = end.duration_since(SystemTime::now()) {
        tokio::time::sleep(left + Duration::from_secs(1)).await;
    }
    let (accepted, kind) = meet().await;
    assert_eq!(kind, Some(HandshakeKind::Resumed));
    assert!(matches!(accepted, Err(AcceptError::Handshake(_))), "{accepted:?}");
}

#[tokio::test]
async fn the_first_byte_decides_while_a_cluster_migrates() {
    let lab = Lab::new();
    let require = TlsAcceptor::open(lab.config()).unwrap();
    let plain =
        async |mut stream: TcpStream| stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    let refused = accept(&require, plain).await;
    assert!(matches!(refused, Err(AcceptError::Plaintext(_))), "{refused:?}");
    let allow = TlsAcceptor::open(TlsConfig { mode: TlsMode::Allow, ..lab.config() }).unwrap();
    let MaybeTlsStream::Plain(mut stream) = accept(&allow, plain).await.unwrap() else {
        panic!("TLS without a handshake")
    };
    let mut first = [0; 3];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"GET", "the acceptor has read nothing");
    let client = lab.client(None);
    let accepted = accept(&allow, async |stream| handshake(&client, stream).await).await;
    assert!(matches!(accepted, Ok(MaybeTlsStream::Tls(_))));
}

#[tokio::test]
async fn garbage_and_an_early_end_are_errors() {
    let lab = Lab::new();
    let acceptor = TlsAcceptor::open(lab.config()).unwrap();
    for bytes in [&[22, 3, 1, 0xff, 0xff, 0, 1, 2][..], &[22; 64], &[22]] {
        let caller = async |mut stream: TcpStream| stream.write_all(bytes).await.unwrap();
        let accepted = accept(&acceptor, caller).await;
        assert!(matches!(accepted, Err(AcceptError::Handshake(_))), "{bytes:?}: {accepted:?}");
    }
    // As a health check does.
    let accepted = accept(&acceptor, async |stream: TcpStream| drop(stream)).await;
    assert!(matches!(accepted, Err(AcceptError::Closed)), "{accepted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_sends_nothing_is_closed() {
    let lab = Lab::new();
    let acceptor = TlsAcceptor::open(lab.config()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let accepted = acceptor.accept(stream).await;
    assert!(matches!(accepted, Err(AcceptError::Timeout)), "{accepted:?}");
    drop(silent);
}

#[tokio::test]
async fn changed_files_are_used_and_broken_ones_are_not() {
    let lab = Lab::new();
    let acceptor = TlsAcceptor::open(lab.config()).unwrap();
    let served = async || {
        let client = lab.client(None);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let caller = async |stream| {
            let name = ServerName::try_from("localhost").unwrap();
            let stream = client.connect(name, stream).await.unwrap();
            let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
            sender.send(certificate.into_owned()).unwrap();
        };
        drop(accept(&acceptor, caller).await.unwrap());
        receiver.await.unwrap()
    };
    let first = read_certificate(&lab.path("node.pem"));
    assert!(!acceptor.reload().unwrap(), "no file has changed");
    assert_eq!(served().await, first);
    lab.certify("node", |_| {});
    assert!(acceptor.reload().unwrap());
    let second = read_certificate(&lab.path("node.pem"));
    assert_ne!(first, second);
    assert_eq!(served().await, second);
    lab.write("node.pem", "nothing");
    assert!(acceptor.reload().is_err());
    assert_eq!(served().await, second, "the previous certificate stays");
    assert!(acceptor.reload().is_err(), "a broken file is read again");
}

/// The error of a key that others can read says `chmod 600`: after that command the files are good.
#[tokio::test]
async fn a_change_of_the_mode_of_a_file_is_a_change() {
    let lab = Lab::new();
    let acceptor = TlsAcceptor::open(lab.config()).unwrap();
    let mode = |mode| {
        fs::set_permissions(lab.path("node.key"), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(0o644);
    let refused = acceptor.reload().unwrap_err().to_string();
    assert!(refused.contains("chmod 600"), "{refused}");
    mode(0o600);
    assert!(acceptor.reload().unwrap());
}

/// Connects a node with another, and returns the subjects that both see.
async fn meet(caller: &PeerTls, listener: &PeerTls) -> Option<(String, String)> {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let accepting = async { listener.accept(socket.accept().await.unwrap().0).await.ok() };
    let calling = async { caller.connect(TcpStream::connect(address).await.unwrap()).await.ok() };
    let both = async { tokio::join!(accepting, calling) };
    let (accepted, connected) = tokio::time::timeout(TIMEOUT, both).await.unwrap();
    let subject = |stream: MaybeTlsStream| stream.certificate().unwrap().subject.clone();
    Some((subject(accepted?), subject(connected?)))
}

#[tokio::test]
async fn two_nodes_see_the_certificates_of_each_other() {
    let lab = Lab::new();
    lab.certify("two", |_| {});
    let mut two = lab.config();
    two.files.certificate = lab.path("two.pem");
    two.files.key = lab.path("two.key");
    let (one, two) = (PeerTls::open(lab.config()).unwrap(), PeerTls::open(two).unwrap());
    let seen = meet(&one, &two).await.unwrap();
    assert_eq!(seen, ("CN=node,O=shop".to_owned(), "CN=two,O=shop".to_owned()));
    let stranger = PeerTls::open(Lab::new().config()).unwrap();
    assert_eq!(meet(&stranger, &two).await, None);
    assert_eq!(meet(&one, &stranger).await, None);
}

#[tokio::test]
async fn a_node_changes_both_directions_or_none() {
    let lab = Lab::new();
    let node = PeerTls::open(lab.config()).unwrap();
    lab.certify("node", |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    let error = node.reload().unwrap_err().to_string();
    assert!(error.contains("as a client"), "{error}");
    assert!(node.reload().is_err(), "read again");
    assert!(meet(&node, &node).await.is_some(), "the previous certificate stays");
    lab.certify("node", |params| params.distinguished_name.push(DnType::CommonName, "new"));
    assert!(node.reload().unwrap());
    let seen = meet(&node, &node).await.unwrap();
    assert_eq!(seen, ("CN=new,O=shop".to_owned(), "CN=new,O=shop".to_owned()));
}

/// The forms of Java's `X500Principal.getName()`.
#[test]
fn subjects_are_written_as_rfc_2253_does() {
    let subject = |parts: &[(DnType, &str)]| {
        let (pem, _) = certificate(&issuer("CA"), "", |params| {
            params.distinguished_name = DistinguishedName::new();
            for (kind, value) in parts {
                params.distinguished_name.push(kind.clone(), *value);
            }
        });
        CertificateInfo::of(&certificates_of(pem.as_bytes()).unwrap()[0]).unwrap().subject
    };
    let place =
        [(DnType::CountryName, "CH"), (DnType::OrganizationName, "a"), (DnType::CommonName, "b")];
    assert_eq!(subject(&place), "CN=b,O=a,C=CH");
    assert_eq!(
        subject(&[(DnType::CommonName, "a,b+c\"d\\e<f>g;h")]),
        r#"CN=a\,b\+c\"d\\e\<f\>g\;h"#
    );
    assert_eq!(subject(&[(DnType::CommonName, " #a ")]), r"CN=\ #a\ ");
    assert_eq!(subject(&[(DnType::CommonName, "#a")]), r"CN=\#a");
    let mail = DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]);
    assert_eq!(subject(&[(mail, "a@b")]), "1.2.840.113549.1.9.1=#0c03614062");
}

#[test]
fn a_certificate_has_its_names_and_its_days() {
    let (pem, _) = certificate(&issuer("CA"), "node", |params| {
        params.subject_alt_names.push(SanType::IpAddress("10.0.0.7".parse().unwrap()));
        params.subject_alt_names.push(SanType::URI("holdfast://shop/node/a".try_into().unwrap()));
        params.not_after = date_time_ymd(2100, 1, 1);
    });
    let info = CertificateInfo::of(&certificates_of(pem.as_bytes()).unwrap()[0]).unwrap();
    assert_eq!(info.dns_names, ["localhost"]);
    assert_eq!(info.addresses, ["10.0.0.7".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(info.uris, ["holdfast://shop/node/a"]);
    assert_eq!(info.days_left(info.not_after - Duration::from_hours(49)), 2);
    assert_eq!(info.days_left(info.not_after + Duration::from_secs(1)), 0);
    assert!(info.days_left(SystemTime::UNIX_EPOCH) > 40_000);
    let damaged = &mut certificates_of(pem.as_bytes()).unwrap()[0].to_vec();
    damaged.truncate(100);
    assert!(CertificateInfo::of(&CertificateDer::from(damaged.clone())).is_err());
}
