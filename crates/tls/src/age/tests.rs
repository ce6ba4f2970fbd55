//! Files of this module and of the tool `age` are read; changed and shortened files are not.

use std::io::Read as _;

use super::*;

/// A key and a file of age 1.3: the header, and the bytes after it.
const KEY: &str = "AGE-SECRET-KEY-16ZHEML0KY86CPXDEXWKZQFUCHRZ27GME3N4UX7FK050NF62QN0PQ9SV0QA";
const PUBLIC: &str = "age1xktlgkj0tjmwvmdn7mh3swlxe3dlrsmwgt37a6dsj6pc595qw44qjhdzdl";
const HEADER: &str = "age-encryption.org/v1\n-> X25519 micX59q1RAm5WCSLrR+EcK3QNOY/e4RzSc6ujccOZGQ\nQ4Tflj6Ve1BwNxsIhi/6GWQP75vPvYDEYFRx0LoTWUs\n--- 22fyxsj1NVBuYAiJfosE3qkNJgjCP+2pf+UB6xz+0Ho\n";
const BODY: &str =
    "b4d679369a3bb043cb05427f08d462c307ed211f69938bc1bcb6f69bdda0e1452dae5b0aac32093e79fd51cbb1b4";

fn encrypt(recipient: &AgeRecipient, pieces: &[&[u8]]) -> Vec<u8> {
    let mut writer = AgeWriter::new(recipient).unwrap();
    let mut file = Vec::new();
    for piece in pieces {
        file.extend(writer.write(piece).unwrap());
    }
    file.extend(writer.finish().unwrap());
    file
}

fn decrypt(identity: &AgeIdentity, file: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    AgeReader::new(file, identity)?.read_to_end(&mut plain)?;
    Ok(plain)
}

#[test]
fn a_file_is_read_with_the_key_of_its_recipient_only() {
    let (own, other) = (AgeIdentity::generate().unwrap(), AgeIdentity::generate().unwrap());
    for len in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
        let data: Vec<u8> = (0..len).map(|at| (at % 251).to_le_bytes()[0]).collect();
        let (first, second) = data.split_at(len / 3);
        let file = encrypt(&own.recipient(), &[first, b"", second]);
        assert!(is_age(&file));
        assert_eq!(decrypt(&own, &file).unwrap(), data, "{len}");
        let refused = decrypt(&other, &file).unwrap_err().to_string();
        assert_eq!(refused, AgeError::OtherKey.to_string());
    }
}

#[test]
fn a_file_of_the_tool_age_is_read() {
    let identity: AgeIdentity = format!("# created: today\n\n{KEY}\n").parse().unwrap();
    assert_eq!(identity.recipient().to_string(), PUBLIC);
    assert!(identity.to_file().ends_with(&format!("\n{KEY}\n")));
    let body =
        (0..BODY.len() / 2).map(|at| u8::from_str_radix(&BODY[2 * at..2 * at + 2], 16).unwrap());
    let file: Vec<u8> = HEADER.bytes().chain(body).collect();
    assert_eq!(decrypt(&identity, &file).unwrap(), b"a file of age\n");
}

#[test]
fn a_changed_or_shortened_file_is_an_error() {
    let own = AgeIdentity::generate().unwrap();
    let file = encrypt(&own.recipient(), &[&vec![7; CHUNK + 100]]);
    for at in [0, 30, 60, 150, 200, 260, CHUNK, file.len() - 1] {
        let mut changed = file.clone();
        changed[at] ^= 1;
        assert!(decrypt(&own, &changed).is_err(), "byte {at}");
    }
    let header = file.len() - (CHUNK + 100 + 2 * TAG);
    for len in [0, 10, header - 1, header, header + 5, header + CHUNK + TAG, file.len() - 1] {
        assert!(decrypt(&own, &file[..len]).is_err(), "{len} bytes");
    }
    assert!(decrypt(&own, &[&file[..], b"x"].concat()).is_err());
}

#[test]
fn keys_have_a_text_form() {
    let own = AgeIdentity::generate().unwrap();
    let again: AgeIdentity = own.to_file().parse().unwrap();
    assert_eq!(again.recipient(), own.recipient());
    let recipient = own.recipient().to_string();
    assert_eq!(recipient.parse::<AgeRecipient>().unwrap(), own.recipient());
    let wrong = |text: &str| text.parse::<AgeRecipient>().is_err();
    assert!(
        wrong("") && wrong("age1") && wrong("age1qqqq") && wrong(&recipient[..recipient.len() - 1])
    );
    assert!(wrong(&recipient.replacen(
        &recipient[10..11],
        if &recipient[10..11] == "q" { "p" } else { "q" },
        1
    )));
    assert!("# nothing\n".parse::<AgeIdentity>().is_err());
    assert!(!format!("{own:?}").contains("SECRET"));
}
