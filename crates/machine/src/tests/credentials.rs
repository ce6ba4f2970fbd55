//! Lifetimes of access tokens, and denied certificates.

use holdfast_types::{
    AccessTokenId, Actor, AuthChange, AuthRejection, NewAccessToken, Reason, Stamp, TokenLifetime,
    TokenPolicy,
};

use super::auth::{ADMIN, CI, change, forbidden, guarded, rejected, subject, token};
use crate::Machine;

fn policy(default_ttl_ms: Option<u64>, max_ttl_ms: Option<u64>) -> AuthChange {
    AuthChange::SetTokenPolicy(TokenPolicy { default_ttl_ms, max_ttl_ms })
}

#[test]
fn no_new_token_outlives_the_maximum_lifetime() {
    let mut machine = guarded();
    let day = 86_400_000;
    let expiring = |id, at: u64| NewAccessToken { expires_at: Some(Stamp(at)), ..token(id) };
    let lifetime = |max_ms| Some(AuthRejection::TokenLifetime { max_ms });
    let contradictory = change(&mut machine, ADMIN, policy(Some(day + 1), Some(day)));
    assert_eq!(rejected(&contradictory).cloned(), lifetime(day));
    change(&mut machine, ADMIN, policy(Some(5), Some(day))).unwrap();
    let add = |token| AuthChange::AddToken { subject: subject("ci"), token };
    let rotate = |token| AuthChange::RotateToken {
        old: AccessTokenId(2),
        token,
        old_expires_at: Stamp(9_000),
    };
    let first = |token| AuthChange::AddAdministrator { subject: subject("eva"), token, mode: None };
    // The clock of the node that proposes may be a minute ahead.
    let late = 1_000 + day + 60_001;
    for (actor, change_of) in [
        (ADMIN, &add as &dyn Fn(NewAccessToken) -> AuthChange),
        (ADMIN, &rotate),
        (Actor::Node, &first),
    ] {
        for token in [token(20), expiring(20, late)] {
            let outcome = change(&mut machine, actor.clone(), change_of(token));
            assert_eq!(rejected(&outcome).cloned(), lifetime(day));
        }
        let mut machine = machine.clone();
        change(&mut machine, actor, change_of(expiring(20, late - 1))).unwrap();
    }
    let mut machine = Machine::load(machine.dump()).unwrap();
    let outcome = change(&mut machine, ADMIN, add(token(20)));
    assert_eq!(rejected(&outcome).cloned(), lifetime(day));
    change(&mut machine, ADMIN, policy(None, None)).unwrap();
    change(&mut machine, ADMIN, add(token(20))).unwrap();
}

#[test]
fn a_token_keeps_its_lifetime_after_a_rotation_has_shortened_it() {
    let mut machine = guarded();
    let old = NewAccessToken { expires_at: Some(Stamp(721_000)), ..token(20) };
    let add = AuthChange::AddToken { subject: subject("ci"), token: old };
    change(&mut machine, ADMIN, add).unwrap();
    let (old, old_expires_at) = (AccessTokenId(20), Stamp(2_000));
    let rotate = AuthChange::RotateToken { old, token: token(21), old_expires_at };
    change(&mut machine, ADMIN, rotate).unwrap();
    let machine = Machine::load(machine.dump()).unwrap();
    let record = machine.access_token(old).unwrap();
    assert_eq!((record.expires_at, record.ttl_ms), (Some(Stamp(2_000)), Some(720_000)));
    let kept = |max_ttl_ms| {
        let policy = TokenPolicy { default_ttl_ms: None, max_ttl_ms };
        [record.ttl_ms, None].map(|ttl| policy.ttl_ms(TokenLifetime::UpToMax(ttl)))
    };
    assert_eq!(kept(None), [Some(720_000), None]);
    assert_eq!(kept(Some(1_000)), [Some(1_000), Some(1_000)]);
}

#[test]
fn denied_certificates_are_listed_through_a_snapshot_until_they_are_allowed() {
    let mut machine = guarded();
    let deny = |why: &str| AuthChange::DenyCertificate {
        certificate: "4A".parse().unwrap(),
        reason: Reason::new(why).unwrap(),
    };
    let allow = AuthChange::AllowCertificate { certificate: "00:4a".parse().unwrap() };
    let not_denied = change(&mut machine, ADMIN, allow.clone());
    let certificate = "serial:4a".parse().unwrap();
    assert_eq!(rejected(&not_denied), Some(&AuthRejection::NotDenied { certificate }));
    assert_eq!(forbidden(&change(&mut machine, CI, deny("x"))).as_deref(), Some("auth manage"));
    for why in ["stolen", "stolen at night"] {
        change(&mut machine, ADMIN, deny(why)).unwrap();
    }
    let mut machine = Machine::load(machine.dump()).unwrap();
    let listed: Vec<_> = machine
        .denied_certificates()
        .map(|(certificate, denial)| (certificate.to_string(), denial.reason.to_string()))
        .collect();
    assert_eq!(listed, [("serial:4a".to_owned(), "stolen at night".to_owned())]);
    change(&mut machine, ADMIN, allow).unwrap();
    assert_eq!(machine.denied_certificates().count(), 0);
}
