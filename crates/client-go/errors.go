package holdfast

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"
)

// ErrReleased is the cause of a guard's context after its release.
var ErrReleased = errors.New("holdfast: the guard was released")

// A Cause is the reason of a loss.
type Cause string

// The causes of a loss. The cluster grants the lock to the next caller only after the client has reported CauseNotRenewed,
// CauseStalled, CauseMaxHoldExceeded or CauseRevoked. The others can be reported after that grant.
const (
	CauseNotRenewed        Cause = "not-renewed"
	CauseSessionEnded      Cause = "session-ended"
	CauseReleasedElsewhere Cause = "released-elsewhere"
	CauseForceReleased     Cause = "force-released"
	CauseRevoked           Cause = "revoked"
	CauseTransferred       Cause = "transferred"
	CauseStalled           Cause = "stalled"
	CauseMaxHoldExceeded   Cause = "max-hold-exceeded"
)

// A Problem is the problem document (RFC 9457) of a rejected call.
type Problem struct {
	Type      string  `json:"type"`
	Title     string  `json:"title"`
	Status    int     `json:"status"`
	Code      string  `json:"code"` // stable
	Retryable bool    `json:"retryable"`
	Detail    string  `json:"detail"`
	Hint      string  `json:"hint"`       // names HTTP parameters
	RequestID string  `json:"request_id"` // of the node's log
	Lock      string  `json:"lock"`
	Holder    *Holder `json:"holder"`
	Waiters   int     `json:"waiters"`
	Needed    string  `json:"needed"` // the missing permission
	Bound     string  `json:"bound"`  // the limit that the call reached

	WaitedMS      int64 `json:"waited_ms"`
	RetryAfterMS  int64 `json:"retry_after_ms"`
	NewestAttempt int64 `json:"newest_attempt"`
	NewestRequest int64 `json:"newest_request"`
	RestartFrom   int64 `json:"restart_from"`
}

// A Holder is a present holder of a lock.
type Holder struct {
	Session   string            `json:"session"`
	Owner     string            `json:"owner"`
	Token     int64             `json:"token"`
	HeldForMS int64             `json:"held_for_ms"`
	Mode      Mode              `json:"mode"`
	Permits   int               `json:"permits"`
	Labels    map[string]string `json:"labels"`
	Value     string            `json:"value"`

	ReleaseRequest *struct {
		Reason     string `json:"reason"`
		WantedInMS int64  `json:"wanted_in_ms"`
		Revoke     bool   `json:"revoke"`
	} `json:"release_request"`
}

// A BusyError: another caller holds the lock, or the awaited event has not happened. Wait longer, or try again later.
type BusyError struct{ *Problem }

// A LostError: another caller may hold the lock. Stop the work under it.
type LostError struct {
	Lock   string // empty if the session itself has ended
	Token  int64
	Cause  Cause
	Reason string // the operator's reason, or the error of the last renewal
}

// An UnavailableError: no node executed the call in time. The same call is safe later.
type UnavailableError struct {
	Reason  string
	Problem *Problem // of the last node that answered, if one did
	retryAt time.Time
}

// An OutcomeUnknownError: the call may have taken effect. Read the state before you repeat it. An acquire needs no repetition, because the client gives
// its attempt up. Before ForceRelease or RequestRelease without a token, read the lock.
type OutcomeUnknownError struct {
	Reason  string
	Problem *Problem
	retryAt time.Time
}

// A RejectedError: the cluster rejected the call. Change it.
type RejectedError struct{ *Problem }

// An UnexpectedResponseError: the answer is not from a holdfast node. Check the addresses.
type UnexpectedResponseError struct{ Reason string }

// An InvalidArgumentError: an argument is invalid, and nothing was sent. Change it.
type InvalidArgumentError struct{ Reason string }

// ProblemOf returns the problem document that a node sent with the error, or nil.
func ProblemOf(err error) *Problem {
	var busy *BusyError
	var rejected *RejectedError
	var unavailable *UnavailableError
	var unknown *OutcomeUnknownError
	switch {
	case errors.As(err, &busy):
		return busy.Problem
	case errors.As(err, &rejected):
		return rejected.Problem
	case errors.As(err, &unavailable):
		return unavailable.Problem
	case errors.As(err, &unknown):
		return unknown.Problem
	}
	return nil
}

// IsRetryable reports whether the same call may succeed later, and is safe to repeat.
func IsRetryable(err error) bool {
	var busy *BusyError
	return errors.As(err, &busy) || isUncertain(err)
}

func (e *BusyError) Error() string {
	text := e.text()
	if e.Lock != "" && e.Holder != nil {
		text = e.heldText()
	}
	switch {
	case e.Waiters == 1:
		text += ", 1 waiter"
	case e.Waiters > 1:
		text += fmt.Sprintf(", %d waiters", e.Waiters)
	}
	if e.Code == CodeWaitTimeout && e.WaitedMS > 0 {
		text = fmt.Sprintf("timed out after %v: %s", millis(e.WaitedMS), text)
	}
	return "holdfast: " + text
}

func (e *LostError) Error() string {
	text := map[Cause]string{
		CauseNotRenewed:        "no renewal was acknowledged before the deadline",
		CauseSessionEnded:      "the session has ended",
		CauseReleasedElsewhere: "the session no longer holds the lock",
		CauseForceReleased:     "an operator force-released the lock",
		CauseRevoked:           "the lock was not released by the deadline of a release request",
		CauseTransferred:       "the lock was transferred to another session",
		CauseStalled:           "the work made no progress, so the lock was released",
		CauseMaxHoldExceeded:   "the maximum hold has passed, so the lock was released",
	}[e.Cause]
	if e.Lock != "" {
		text = fmt.Sprintf("lock %q is lost: %s", e.Lock, text)
	}
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return "holdfast: " + text
}

func (e *UnavailableError) Error() string {
	return "holdfast: no node answered the call in time: " + e.Reason
}

func (e *OutcomeUnknownError) Error() string {
	return "holdfast: the outcome is unknown, the call may have taken effect: " + e.Reason
}

func (e *RejectedError) Error() string { return "holdfast: " + e.text() }

func (e *UnexpectedResponseError) Error() string {
	return "holdfast: the answer is not from a holdfast node, check the address: " + e.Reason
}

func (e *InvalidArgumentError) Error() string { return "holdfast: " + e.Reason }

// text names the lock, unless the detail does, and the cause. It has no hint, because that names HTTP parameters.
func (p *Problem) text() string {
	text := p.Title
	if p.Detail != "" && !strings.EqualFold(p.Detail, p.Title) {
		text += ": " + p.Detail
	}
	if p.Lock != "" && !strings.Contains(p.Detail, p.Lock) {
		text = fmt.Sprintf("lock %q: %s", p.Lock, text)
	}
	return text
}

func (p *Problem) heldText() string {
	labels := make([]string, 0, len(p.Holder.Labels))
	for key, value := range p.Holder.Labels {
		labels = append(labels, key+"="+value)
	}
	sort.Strings(labels)
	shown := ""
	if len(labels) > 0 {
		shown = " (" + strings.Join(labels, " ") + ")"
	}
	return fmt.Sprintf("lock %q is held by session %q%s for %v", p.Lock, p.Holder.Session, shown, millis(p.Holder.HeldForMS))
}

func invalid(format string, args ...any) error {
	return &InvalidArgumentError{fmt.Sprintf(format, args...)}
}

func unexpected(format string, args ...any) error {
	return &UnexpectedResponseError{fmt.Sprintf(format, args...)}
}

// isUnclear reports whether no node certainly rejected the call that failed: it is uncertain, or another server answered it. The
// client then repeats the call, or gives up what the call may have left.
func isUnclear(err error) bool {
	var wrong *UnexpectedResponseError
	return isUncertain(err) || errors.As(err, &wrong)
}

// isUncertain reports whether the call may succeed later, or may have taken effect.
func isUncertain(err error) bool {
	var unavailable *UnavailableError
	var unknown *OutcomeUnknownError
	return errors.As(err, &unavailable) || errors.As(err, &unknown)
}

// retryAt returns when the call that failed may be sent again: the nodes may have sent the header Retry-After.
func retryAt(err error) time.Time {
	var unavailable *UnavailableError
	var unknown *OutcomeUnknownError
	switch {
	case errors.As(err, &unavailable):
		return unavailable.retryAt
	case errors.As(err, &unknown):
		return unknown.retryAt
	}
	return time.Time{}
}

// mayRepeat reports whether a call that failed may have an effect after a repetition, before until. A zero until is no bound.
func mayRepeat(err error, until time.Time) bool {
	return isUncertain(err) && (until.IsZero() || later(time.Now(), retryAt(err)).Before(until))
}

// rejectedWith returns the problem of a rejection with this code, or nil.
func rejectedWith(err error, codes ...string) *Problem {
	var rejected *RejectedError
	if errors.As(err, &rejected) {
		for _, code := range codes {
			if rejected.Code == code {
				return rejected.Problem
			}
		}
	}
	return nil
}

// newestAttempt returns the newest attempt of the session if the call was rejected because the attempt of the call is over.
func newestAttempt(err error) (int64, bool) {
	problem := rejectedWith(err, CodeAttemptOver)
	if problem == nil || problem.NewestAttempt == 0 {
		return 0, false
	}
	return problem.NewestAttempt, true
}

// newestRequest returns the newest request of the session if the call was rejected because the request of the call is over.
func newestRequest(err error) (int64, bool) {
	problem := rejectedWith(err, CodeRequestOver)
	if problem == nil || problem.NewestRequest == 0 {
		return 0, false
	}
	return problem.NewestRequest, true
}

func isUnauthenticated(err error) bool {
	return rejectedWith(err, CodeUnauthenticated, CodeTokenExpired) != nil
}

// decode decodes an answer, which must have the fields, and those of isComplete: another server may answer {}.
func decode(body []byte, into any, fields ...string) error {
	if err := json.Unmarshal(body, into); err != nil {
		return unexpected("undecodable answer: %v", err)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		return unexpected("the answer is no object") // Unmarshal decodes null, too.
	}
	var present map[string]any
	json.Unmarshal(body, &present)
	for _, field := range fields {
		if present[field] == nil {
			return unexpected("the answer lacks the field %s", field)
		}
	}
	if checked, isChecked := into.(interface{ isComplete() bool }); isChecked && !checked.isComplete() {
		return unexpected("the answer lacks fields")
	}
	return nil
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
