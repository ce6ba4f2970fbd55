//! Paths that callers of other systems try, with the call to send instead.
//!
//! A row of [`GUESSES`] has the paths of one intent: of etcd, Consul, Nomad, Vault, Kubernetes and health checks, and
//! the guesses of new users. `*` stands for any component, and a path may continue. The longest match applies.

/// Paths with spaces between, and the hint. The first path of the API in the hint is the nearest one.
struct PathGuess {
    paths: &'static str,
    hint: &'static str,
}

const fn guess(paths: &'static str, hint: &'static str) -> PathGuess {
    PathGuess { paths, hint }
}

const GUESSES: &[PathGuess] = &[
    guess(
        "/health /healthz /healthcheck /ready /live /alive /ping /up /v1/health /v1/healthz /v1/readyz \
         /v1/livez /v1/ping /v1/sys/health /v1/agent/health /actuator/health /-/healthy /-/ready /_health",
        "GET /readyz shows whether the node accepts calls, GET /livez whether the process is alive",
    ),
    guess(
        "/status /info /state /leader /leaders /members /nodes /peers /raft /v1/status /v1/info /v1/state \
         /v1/leader /v1/nodes /v1/peers /v1/raft /v1/agent /v1/operator /v1/catalog /v1/quorum \
         /v1/cluster/leader /v1/cluster/members /v1/cluster/status /v1/cluster/health /v1/cluster/nodes \
         /v1/members/list /v2/members /v2/stats /v3/cluster/member /v3/maintenance/status /v1/sys/leader",
        "GET /v1/cluster shows the members, their health and the leader",
    ),
    guess(
        "/v1/semaphore /v1/semaphores /semaphore /semaphores /v1/permits",
        "PUT /v1/locks/{name}?limit=N acquires a permit: a semaphore is a lock with a limit",
    ),
    guess(
        "/v1/mutex /v1/mutexes /mutex /v1/acquire /acquire /v1/rwlock /v1/rwlocks /rwlock \
         /v3/lock/lock /v3beta/lock/lock",
        "PUT /v1/locks/{name} acquires a lock",
    ),
    guess(
        "/v1/release /v1/unlock /unlock /release /v3/lock/unlock",
        "DELETE /v1/locks/{name}?session=ID releases a lock",
    ),
    guess(
        "/v1/renew /v1/extend /v1/refresh /renew /v1/heartbeat /heartbeat /v1/keepalives /v1/session/renew \
         /v1/sessions/*/renew /v1/sessions/*/heartbeat /v1/sessions/*/refresh /v3/lease/keepalive /v1/lease/renew",
        "POST /v1/sessions/{id}/keepalive renews a session and its holds",
    ),
    guess(
        "/v1/session/create /v1/sessions/create /v3/lease/grant /v1/lease /v1/leases /lease /leases \
         /apis/coordination.k8s.io",
        "PUT /v1/sessions/{id}?ttl=30s opens a session; PUT /v1/locks/{name} opens one by itself",
    ),
    guess(
        "/v1/session/destroy /v1/sessions/destroy /v3/lease/revoke /v3/kv/lease/revoke",
        "DELETE /v1/sessions/{id} closes a session and releases its holds",
    ),
    guess(
        "/v1/session/info /v3/lease/timetolive /v3/kv/lease/timetolive",
        "GET /v1/sessions/{id} shows a session and its holds",
    ),
    guess(
        "/v1/session/list /v1/session/node /v3/lease/leases",
        "GET /v1/sessions lists the sessions",
    ),
    guess(
        "/v1/queue /v1/queues /v1/waiters /v1/holders /v1/holder /v1/owner /queue",
        "GET /v1/locks/{name} shows the holders and the queue of a lock",
    ),
    guess(
        "/v1/force-unlock /v1/break /v1/kill /v1/steal /v1/revoke /v1/evict",
        "POST /v1/release-requests/{name} asks the holders to release a lock; for operators, \
         POST /v1/force-releases/{name}?reason=TEXT ends their holds",
    ),
    guess(
        "/v1/leader-election /v1/leader-elections /v1/candidates /v1/campaign /v3/election/campaign",
        "PUT /v1/elections/{name} campaigns in an election",
    ),
    guess(
        "/v3/election/leader /v3/election/observe",
        "GET /v1/elections/{name} shows the leader of an election",
    ),
    guess(
        "/v1/elections",
        "GET /v1/locks?prefix=elections/ lists the elections; PUT /v1/elections/{name} campaigns in one",
    ),
    guess("/v3/election/resign", "DELETE /v1/elections/{name}?session=ID resigns"),
    guess(
        "/v1/kv /v2/keys /v1/keys /v1/key /v1/data /v1/znode /v1/znodes /znode /znodes /kv /keys \
         /v3/kv/range /v3/kv/put /v3/kv/deleterange",
        "PUT /v1/tree/{path} and GET /v1/tree/{path} write and read data; PUT /v1/locks/{name} acquires a lock",
    ),
    guess(
        "/v3/kv/txn /v1/transaction /v1/transactions /v1/multi",
        "POST /v1/txn runs a transaction",
    ),
    guess(
        "/v3/watch /v1/event /v1/events /v1/watches /v1/subscribe /events",
        "GET /v1/watch streams changes of the tree",
    ),
    guess(
        "/v1/backup /v1/backups /v1/snapshot /v1/snapshots /backup /snapshot /v3/maintenance/snapshot \
         /v1/operator/snapshot",
        "GET /v1/cluster/backup downloads a backup: holdfast backup verifies it as well",
    ),
    guess("/v3/maintenance/alarm /v1/alerts /alerts /alarms", "GET /v1/alarms lists the alarms"),
    guess(
        "/v1/token /v1/tokens /v1/acl/token /v1/acl/tokens /v1/auth/token/create /v1/apikeys",
        "POST /v1/auth/tokens creates an access token",
    ),
    guess(
        "/login /v1/login /v1/auth/login /v3/auth/authenticate /v1/acl/login /v1/whoami /whoami /v1/me",
        "GET /v1/auth/me shows the caller; a call sends its access token: Authorization: Bearer hf_...",
    ),
    guess(
        "/v1/acl/bootstrap",
        "POST /v1/auth/bootstrap adds the first administrator: holdfast auth bootstrap",
    ),
    guess(
        "/v1/role /v1/acl/role /v1/acl/policy /v1/acl/policies",
        "GET /v1/auth/roles lists the roles",
    ),
    guess(
        "/v1/policy /policy",
        "GET /v1/policies/{name} shows the policy of a lock, PATCH changes it",
    ),
    guess("/v1/user /v1/users /users", "GET /v1/auth/subjects lists the subjects"),
    guess("/v1/log /v1/logs /v1/logging /log /loglevel", "PATCH /v1/node sets the log level"),
    guess(
        "/v1/metrics /stats /v1/stats /prometheus /actuator/prometheus /varz /v1/agent/metrics /_stats /debug/vars",
        "GET /metrics returns the metrics of the node",
    ),
    guess("/v1/version /v1/build /build", "GET /version shows the version"),
    guess(
        "/v1 /ui /web /console /admin /dashboard /help /api /v1/docs /v1/help /doc /docs/api /swagger \
         /swagger-ui /swagger-ui.html /redoc /api-docs /v3/api-docs",
        "GET /docs lists all paths; holdfast top shows the locks",
    ),
    guess(
        "/openapi /openapi.yaml /openapi.yml /v1/openapi /v1/openapi.json /swagger.json /swagger.yaml \
         /.well-known/openapi",
        "GET /openapi.json is the description of all calls",
    ),
];

/// The hint for a path of another system, and the path of the API that it names first.
pub(super) fn hint_of(path: &str) -> Option<(&'static str, &'static str)> {
    let asked = components(path);
    let matching = GUESSES.iter().flat_map(|guess| {
        guess
            .paths
            .split(' ')
            .map(components)
            .filter(|guessed| begins(&asked, guessed))
            .map(|guessed| (guessed.len(), guess.hint))
    });
    let (_, hint) = matching.max_by_key(|(length, _)| *length)?;
    let nearest = hint.split(' ').find(|word| word.starts_with('/'))?;
    Some((hint, nearest.split(['?', ',', ';']).next().unwrap_or(nearest)))
}

fn components(path: &str) -> Vec<&str> {
    path.split('/').filter(|component| !component.is_empty()).collect()
}

fn begins(asked: &[&str], guessed: &[&str]) -> bool {
    let alike =
        |(asked, guessed): (&&str, &&str)| *guessed == "*" || asked.eq_ignore_ascii_case(guessed);
    // Every path of the API begins with `/v1`.
    let is_whole = matches!(guessed, ["v1" | "api"]);
    let fits = if is_whole { asked.len() == guessed.len() } else { asked.len() >= guessed.len() };
    fits && asked.iter().zip(guessed).all(alike)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::OPERATIONS;

    #[test]
    fn a_path_of_another_system_gets_the_call_of_its_intent() {
        for (path, nearest) in [
            ("/v1/health", "/readyz"),
            ("/v1/health/state/any", "/readyz"),
            ("/ping", "/readyz"),
            ("/healthz", "/readyz"),
            ("/v1/status", "/v1/cluster"),
            ("/v1/status/leader", "/v1/cluster"),
            ("/v1/agent/self", "/v1/cluster"),
            ("/v1/cluster/leader", "/v1/cluster"),
            ("/status", "/v1/cluster"),
            ("/info", "/v1/cluster"),
            ("/v1/semaphores/x", "/v1/locks/{name}"),
            ("/v1/backup", "/v1/cluster/backup"),
            ("/v1/session/create", "/v1/sessions/{id}"),
            ("/v1/session/renew/me", "/v1/sessions/{id}/keepalive"),
            ("/v1/sessions/me/renew", "/v1/sessions/{id}/keepalive"),
            ("/v3/lock/lock", "/v1/locks/{name}"),
            ("/v3/lock/unlock", "/v1/locks/{name}"),
            ("/v3/lease/grant", "/v1/sessions/{id}"),
            ("/v3/kv/range", "/v1/tree/{path}"),
            ("/v2/keys/x", "/v1/tree/{path}"),
            ("/v1/kv/service/leader", "/v1/tree/{path}"),
            ("/apis/coordination.k8s.io/v1/namespaces/a/leases", "/v1/sessions/{id}"),
            ("/v1/queues/x", "/v1/locks/{name}"),
            ("/v1/whoami", "/v1/auth/me"),
            ("/UI", "/docs"),
            ("/v1/", "/docs"),
            ("/swagger", "/docs"),
            ("/swagger.json", "/openapi.json"),
            ("/actuator/prometheus", "/metrics"),
        ] {
            assert_eq!(hint_of(path).map(|(_, nearest)| nearest), Some(nearest), "{path}");
        }
        for path in ["/", "/favicon.ico", "/v1/lock/a", "/v1/x", "/api/v1/locks", "/index.html"] {
            assert_eq!(hint_of(path), None, "{path}");
        }
    }

    #[test]
    fn every_hint_names_calls_that_exist() {
        for PathGuess { hint, .. } in GUESSES {
            let words: Vec<&str> = hint.split_whitespace().collect();
            let calls = words.windows(2).filter(|pair| pair[1].starts_with('/'));
            let mut named = 0;
            for call in calls {
                let path = call[1].split(['?', ',', ';', ':']).next().unwrap();
                let exists = |method: &str| {
                    OPERATIONS.iter().any(|operation| {
                        operation.method.as_str() == method && operation.route.pattern == path
                    })
                };
                assert!(exists(call[0]), "{hint}");
                named += 1;
            }
            assert!(named > 0, "{hint}");
        }
    }
}
