package holdfast

import (
	"net/http"
	"strings"
	"time"
)

// A stage is the state of a queue entry.
type stage int

const (
	stageWaiting    stage = iota
	stageHeld             // with a token
	stageConverting       // held, with a pending conversion, which may change the token
	stageLeaving          // being released; the cluster may not have the release yet
)

// transferred is the attempt of a hold that another session transferred.
const transferred = 0

// generatedOwner begins the owners that this client generates, one for each guard, so that two guards exclude each other.
const generatedOwner = "g"

// An entry is the client's entry in the queue of one lock: waiting, held, or about to be released. Guards and the renewal
// of their session share it. The mutex of the session protects the fields after it.
type entry struct {
	// lock is the name of the lock; of a sharded lock, the shard "stock/3" once it is granted.
	lock  string
	owner string
	// granted has a value when a renewal lists the lock as held while this entry still waits for the grant.
	granted chan struct{}
	// changing has a value during a change of the mode, so that the answers of two changes never mix.
	changing chan struct{}
	// requests has the latest release request.
	requests chan ReleaseRequest

	attempt       int64 // transferred for a hold that no attempt of this client acquired
	isAnyShard    bool  // a shard of the lock will be granted
	isTransferred bool  // set before the call that transfers the hold
	stage         stage
	grant         grantBody
	limits        holdLimits
	onLoss        func(*loss) // called once, by the watcher of the session
	isReported    bool
	requestedAt   moment // when the latest release request arrived
}

func newEntry(lock, owner string, attempt int64) *entry {
	return &entry{
		lock: lock, owner: owner, attempt: attempt,
		granted: make(chan struct{}, 1), changing: make(chan struct{}, 1), requests: make(chan ReleaseRequest, 1),
	}
}

// covers reports whether the entry is for the lock, or may be granted as the lock.
func (e *entry) covers(lock string) bool {
	shard := strings.TrimPrefix(lock, e.lock+"/")
	return e.lock == lock || e.isAnyShard && shard != lock && !strings.Contains(shard, "/")
}

func (e *entry) holds(token int64) bool {
	return (e.stage == stageHeld || e.stage == stageConverting) && e.grant.Token == token
}

// isOf reports whether the entry is of the hold with this ticket. The ticket 0 is none.
func (e *entry) isOf(ticket int64) bool { return ticket != 0 && e.grant.Ticket == ticket }

// isUpgradedTo reports whether a conversion of the entry waits for this token of its hold.
func (e *entry) isUpgradedTo(ticket, token int64) bool {
	return e.stage == stageConverting && e.isOf(ticket) && e.grant.Token < token
}

// notifyGranted makes the acquire of this entry send its call again, to another node.
func (e *entry) notifyGranted() {
	select {
	case e.granted <- struct{}{}:
	default:
	}
}

// requestRelease stores a release request. A request that revokes ends the hold at its deadline.
func (e *entry) requestRelease(request ReleaseRequest) {
	if request.Revoke {
		e.limits.revoke(request.deadline, request.Reason)
	}
	e.requestedAt = now()
	select {
	case <-e.requests:
	default:
	}
	e.requests <- request
}

// releaseCall builds the call that releases entries of one owner and one attempt, and no later hold.
func releaseCall(session string, entries []*entry) call {
	first := entries[0]
	q := query{}.with(paramSession, session).withText(paramOwner, first.owner).withNumber(paramAttempt, first.attempt)
	if first.attempt == transferred {
		q = q.withNumber(paramToken, first.grant.Token)
	}
	release := call{method: http.MethodDelete, path: resource("locks", first.lock), query: q, copies: harmless}
	if len(entries) > 1 {
		release.path = "/v1/locks"
		for _, e := range entries {
			release.query = release.query.with(paramName, e.lock)
		}
	}
	return release
}

func isGeneratedOwner(owner string) bool { return strings.HasPrefix(owner, generatedOwner+"-") }

// A ReleaseRequest is the wish of another caller to get the lock. The hold continues: finish the work and release the
// guard.
type ReleaseRequest struct {
	Reason string
	// Revoke: the cluster revokes the hold at the deadline, and the guard is lost shortly before.
	Revoke   bool
	deadline moment
}

// newReleaseRequest returns a request whose deadline counts from countedFrom: the cluster counted the time later.
func newReleaseRequest(reason string, wantedInMS int64, revoke bool, countedFrom moment) ReleaseRequest {
	return ReleaseRequest{reason, revoke, deadlineOf(countedFrom, millis(wantedInMS))}
}

// Remaining returns the time until the deadline of the request, or zero if it has passed.
func (r ReleaseRequest) Remaining() time.Duration { return r.deadline.left(now()) }
