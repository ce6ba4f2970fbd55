package holdfast

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// waitMax is the maximum wait of one call. A longer wait repeats the call.
const waitMax = 5 * time.Minute

// retryAfterMax limits the header Retry-After: a proxy must not delay a release for hours. Nodes send at most 5 s.
const retryAfterMax = time.Minute

// callsPerSecond begins the name of a quota of the caller, which another node would count for the same call.
const callsPerSecond = "calls_per_second"

// A call is one call of the HTTP API.
type call struct {
	method string
	path   string // escaped
	query  query
	header map[string]string
	body   []byte
	wait   time.Duration // the time that the node should wait
	copies copies
}

// copies is the effect of a second copy of a call at another node.
type copies int

const (
	// repeatable: a repeated call changes nothing, but a late copy may undo the change of another caller. Another node gets
	// the call only after a lost answer.
	repeatable copies = iota
	// harmless: no copy has an effect, however late it arrives. Two nodes may have the call at once.
	harmless
	// never: a copy may concern a later hold, so the call is not repeated after a lost answer.
	never
)

func get(path string, q query) call {
	return call{method: http.MethodGet, path: path, query: q, copies: harmless}
}

func (c call) target() string {
	if len(c.query) == 0 {
		return c.path
	}
	return c.path + "?" + c.query.String()
}

// A query is the list of the parameters of a call.
type query []string

func (q query) with(key, value string) query {
	return append(q[:len(q):len(q)], escape(key, "")+"="+escape(value, ""))
}

func (q query) withText(key, value string) query {
	if value == "" {
		return q
	}
	return q.with(key, value)
}

func (q query) withNumber(key string, value int64) query {
	if value == 0 {
		return q
	}
	return q.with(key, strconv.FormatInt(value, 10))
}

func (q query) withDuration(key string, d time.Duration) query {
	if d <= 0 {
		return q
	}
	return q.with(key, wholeMillis(d))
}

func (q query) String() string { return strings.Join(q, "&") }

// wholeMillis formats a duration in milliseconds, the unit of the API; at least one.
func wholeMillis(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10) + "ms"
}

// escape encodes a text for a URL, except for letters, digits, and the characters of keep.
func escape(text, keep string) string {
	const hex = "0123456789ABCDEF"
	var out strings.Builder
	for _, b := range []byte(text) {
		isPlain := b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
		if isPlain || strings.IndexByte("-._~"+keep, b) >= 0 {
			out.WriteByte(b)
		} else {
			out.Write([]byte{'%', hex[b>>4], hex[b&15]})
		}
	}
	return out.String()
}

// resource returns the path of a named resource. A name may contain '/'.
func resource(kind, name string) string { return "/v1/" + kind + "/" + escape(name, "/") }

func checkName(what, name string) error {
	if name == "" || len(name) > 512 {
		return invalid("the name of %s has 1 to 512 bytes, and %q has %d", what, name, len(name))
	}
	for _, part := range strings.Split(name, "/") {
		if part == "" || part == "." || part == ".." {
			return invalid("no part of the name of %s is empty, '.' or '..': %q", what, name)
		}
	}
	return nil
}

// A response is a complete answer of a node.
type response struct {
	status int
	header http.Header
	body   []byte
}

func (r *response) problem() *Problem {
	var problem Problem
	if json.Unmarshal(r.body, &problem) != nil || problem.Code == "" {
		return nil
	}
	if problem.RequestID == "" {
		problem.RequestID = r.header.Get("Holdfast-Request-Id")
	}
	return &problem
}

func (r *response) namesNode() bool { return r.header.Get("Holdfast-Node") != "" }

// isOfNode reports whether a successful answer is from a node, which answers with its id, with fields, with events or with 204.
// Another server, e.g. a proxy, may answer with a page or with {}.
func (r *response) isOfNode() bool {
	var fields map[string]json.RawMessage
	return r.namesNode() || r.status == http.StatusNoContent ||
		strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") ||
		json.Unmarshal(r.body, &fields) == nil && len(fields) > 0
}

// retryAfter returns the time in which the call must not be repeated. 0 without the header.
func (r *response) retryAfter() time.Duration {
	if r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable {
		return 0
	}
	seconds, _ := strconv.ParseUint(r.header.Get("Retry-After"), 10, 16) // the largest number if it has more digits
	return min(time.Duration(seconds)*time.Second, retryAfterMax)
}

type outcomeKind int

const (
	succeeded outcomeKind = iota
	rejected              // another node would return the same
	notDone               // the node certainly did not execute the call
	oldToken              // the node rejected the access token, and its file may have another one later
	foreign               // another server answered in the place of a node, and may have passed the call on to one
	mayBeDone
)

// An outcome is the result of one request to one node.
type outcome struct {
	kind     outcomeKind
	response *response
	err      error  // of rejected and oldToken
	reason   string // of notDone, foreign and mayBeDone
	problem  *Problem
	// retryAfter: the node must not get the call again in this time. No node must if the limit is one of the caller.
	retryAfter time.Duration
	isOfCaller bool
}

// classify returns the meaning of an answer for the call.
func classify(base string, r *response) outcome {
	if r.status >= 200 && r.status < 300 {
		if !r.isOfNode() {
			return outcome{kind: foreign, reason: base + " answered " + strconv.Itoa(r.status) + " without the fields of a node"}
		}
		return outcome{kind: succeeded, response: r}
	}
	problem := r.problem()
	if problem == nil {
		reason := base + " answered " + strconv.Itoa(r.status) + " without a problem document"
		if r.status >= 500 {
			return outcome{kind: mayBeDone, reason: reason, retryAfter: r.retryAfter()}
		}
		if r.namesNode() {
			return outcome{kind: rejected, err: &UnexpectedResponseError{reason}}
		}
		return outcome{kind: foreign, reason: reason}
	}
	failed := outcome{kind: notDone, reason: base + ": " + problem.Code + ": " + problem.Title, problem: problem}
	failed.retryAfter, failed.isOfCaller = r.retryAfter(), strings.HasPrefix(problem.Bound, callsPerSecond)
	switch problem.Code {
	case CodeLockBusy, CodeLockInCooldown, CodeWaitTimeout, CodeNotYet:
		return outcome{kind: rejected, err: &BusyError{problem}}
	case CodeSessionExpired:
		return outcome{kind: rejected, err: &LostError{Cause: CauseSessionEnded}}
	case CodeOutcomeUnknown, CodeInternal:
		failed.kind = mayBeDone
		return failed
	}
	if problem.Retryable {
		return failed
	}
	return outcome{kind: rejected, err: &RejectedError{problem}}
}
