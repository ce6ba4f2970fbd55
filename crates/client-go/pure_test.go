package holdfast

import (
	"strings"
	"testing"
	"time"
)

func at(ms int64) moment { return moment(millis(ms)) }

func TestDeadlineIsBeforeTheClustersByAMargin(t *testing.T) {
	if got := deadlineOf(at(1000), 30*time.Second); got != at(1000+30_000-300-5) {
		t.Error(got)
	}
	if got := deadlineOf(at(0), 3*time.Millisecond); got != at(0) {
		t.Error(got)
	}
	for jitter := 0; jitter <= 255; jitter++ {
		if due := nextRenewal(at(0), 30*time.Second, uint8(jitter)); due < at(9000) || due > at(10_000) {
			t.Error(jitter, due)
		}
		if wait := parkTime(30*time.Second, uint8(jitter)); wait < 4500*time.Millisecond || wait > 5*time.Second {
			t.Error(jitter, wait)
		}
	}
	if wait := parkTime(24*time.Hour, 0); wait != parkMax {
		t.Error(wait)
	}
}

func TestADeadlineThatPassedStaysPassed(t *testing.T) {
	l := newLease(acknowledgement{at(0), 30 * time.Second}, 0)
	if deadline, lost := l.check(at(29_694)); lost != nil || deadline != at(29_695) {
		t.Error(deadline, lost)
	}
	// Sent in time, acknowledged too late: the cluster keeps the session, but the work may have stopped.
	if l.acknowledge(acknowledgement{at(29_000), 30 * time.Second}, 0, at(29_700)) == nil {
		t.Error("restored")
	}
	l = newLease(acknowledgement{at(10_000), 30 * time.Second}, 0)
	if lost := l.acknowledge(acknowledgement{at(5000), 30 * time.Second}, 0, at(11_000)); lost != nil {
		t.Error(lost)
	}
	if deadline, _ := l.check(at(11_000)); deadline != deadlineOf(at(10_000), 30*time.Second) {
		t.Error("a late acknowledgement moved the deadline back", deadline)
	}
}

func TestTheFirstLossOfALeaseStays(t *testing.T) {
	l := newLease(acknowledgement{at(0), 30 * time.Second}, 0)
	l.renewalFailed("node 1 is down", at(9000))
	if l.renewAt != at(9200) {
		t.Error(l.renewAt)
	}
	l.end(&loss{cause: CauseReleasedElsewhere}, at(40_000))
	l.end(&loss{cause: CauseSessionEnded}, at(50_000))
	if _, lost := l.check(at(1)); lost == nil || lost.cause != CauseNotRenewed || lost.reason != "node 1 is down" {
		t.Error(lost)
	}
}

func TestLimitsOfAHold(t *testing.T) {
	l := holdLimits{progressTimeout: time.Second, progressUntil: at(1000), maxHold: 2 * time.Second, maxUntil: at(2000)}
	for _, ms := range []int64{500, 1000, 1500, 1900} {
		if lost := l.reportProgress(at(ms)); lost != nil && ms < 1000 {
			t.Error(ms, lost)
		}
	}
	l = holdLimits{progressTimeout: time.Second, progressUntil: at(1000)}
	if l.reportProgress(at(900)) != nil {
		t.Error("a report in time")
	}
	if next, isLimited, _ := l.check(at(1800)); !isLimited || next != at(1900) {
		t.Error(next)
	}
	if lost := l.reportProgress(at(1900)); lost == nil || lost.cause != CauseStalled {
		t.Error("a late report restored the hold")
	}
	l = holdLimits{maxHold: 9 * time.Second, maxUntil: at(9000)}
	l.revoke(at(2000), "patch day")
	l.revoke(at(3000), "again")
	if _, _, lost := l.check(at(2000)); lost == nil || *lost != (loss{CauseRevoked, "patch day"}) {
		t.Error(lost)
	}
	l.lose(&loss{cause: CauseForceReleased}, at(1000))
	if _, _, lost := l.check(at(9999)); lost.cause != CauseForceReleased {
		t.Error(lost)
	}
}

func TestAHoldEndsAtTheEndOfItsGrant(t *testing.T) {
	ends := func(ms int64) *grantBody { return &grantBody{EndsInMS: &ms, WaitedMS: 500} }
	expect := func(l holdLimits, length time.Duration, from moment, left time.Duration) {
		t.Helper()
		if l.maxHold != length || length > 0 && l.maxUntil != deadlineOf(from, left) {
			t.Error(l, length, from, left)
		}
	}
	var l holdLimits
	l.endBy(&grantBody{}, 0, at(1000))
	expect(l, 0, 0, 0)
	// The hold has the end of an earlier acquire, or of the sender of a transfer.
	l.endBy(ends(20_000), 0, at(1000))
	expect(l, 20*time.Second, at(1500), 20*time.Second)
	// An upgrade moves no end to a later moment.
	l.endBy(ends(40_000), 0, at(2000))
	expect(l, 20*time.Second, at(1500), 20*time.Second)
	l.endBy(ends(3000), 0, at(2000))
	expect(l, 3*time.Second, at(2500), 3*time.Second)
	l = holdLimits{}
	l.endBy(ends(20_000), 10*time.Second, at(1000))
	expect(l, 10*time.Second, at(1500), 10*time.Second)
	l = holdLimits{}
	l.endBy(ends(5000), 10*time.Second, at(1000))
	expect(l, 10*time.Second, at(1500), 5*time.Second)
	l = holdLimits{}
	l.endBy(ends(0), 0, at(1000))
	if _, _, lost := l.check(at(1500)); lost == nil || lost.cause != CauseMaxHoldExceeded {
		t.Error("a hold that ends now", l)
	}
}

func TestTheDeadlineOfAReleaseRequestCountsFromTheCall(t *testing.T) {
	e := newEntry("orders", "", 1)
	e.stage, e.grant.Token = stageHeld, 7
	events := &sessionEvents{session: &session{entries: []*entry{e}}}
	events.deliver(nil, &eventsBody{
		WaitedMS: 500,
		Events:   []eventBody{{Kind: "release-requested", Lock: "orders", Token: 7, WantedInMS: 2000, Revoke: true}},
	}, at(1000))
	if wanted := deadlineOf(at(1500), 2*time.Second); e.limits.revokedAt != wanted || (<-e.requests).deadline != wanted {
		t.Error(e.limits.revokedAt, wanted)
	}
}

func TestNumbersGrow(t *testing.T) {
	first := nextNumber(0)
	ahead := first + 1_000_000_000
	second := nextNumber(ahead)
	if second <= ahead || nextNumber(0) <= second || nextNumber(largestAttempt) <= second {
		t.Error(first, second)
	}
}

func TestProgressOfTwoClocksNeverStandsStillAfterAStep(t *testing.T) {
	var p progress
	p.advance(0, 0)
	if got := p.advance(time.Second, time.Second); got != at(1000) {
		t.Error(got)
	}
	if got := p.advance(2*time.Second, time.Hour); got < moment(time.Hour) {
		t.Error("a suspension stops the monotonic clock alone", got)
	}
	before := p.advance(3*time.Second, time.Minute)
	if got := p.advance(4*time.Second, time.Minute+time.Second); got-before != at(1000) {
		t.Error("after a step back of the wall clock", got-before)
	}
}

func TestNamesAreEscaped(t *testing.T) {
	if got := resource("locks", "shop/a b%ü?"); got != "/v1/locks/shop/a%20b%25%C3%BC%3F" {
		t.Error(got)
	}
	if got := (query{}).with("reason", "a&b +c").String(); got != "reason=a%26b%20%2Bc" {
		t.Error(got)
	}
	for _, name := range []string{"", "a//b", "/a", "..", "a/."} {
		if checkName("a lock", name) == nil {
			t.Error(name)
		}
	}
}

func TestAddresses(t *testing.T) {
	for address, base := range map[string]string{
		"127.0.0.1:7400": "http://127.0.0.1:7400", " http://a:1/ ": "http://a:1", "[::1]:7400": "http://[::1]:7400", "https://a:1": "https://a:1",
	} {
		if got, err := baseURL(address, false); got != base || err != nil {
			t.Error(address, got, err)
		}
	}
	for _, address := range []string{"", "localhost", "localhost:http", ":7400", "a/b:1", "http://", "ftp://a:1", "a:1 b:2", "u@a:1"} {
		if got, err := baseURL(address, false); err == nil {
			t.Error(address, got)
		}
	}
	for _, address := range []string{"http://u:secret@a:1", "u:secret@a", "u:sec%ret@a:1", "u:@secret@a:1"} {
		if _, err := baseURL(address, false); err == nil || strings.Contains(err.Error(), "sec") {
			t.Error(address, err)
		}
	}
}

func TestAccessTokens(t *testing.T) {
	for _, text := range []string{"hf_a\n", "Authorization: Bearer hf_a\n", "authorization:  bearer   hf_a"} {
		if got := tokenIn(text); got != "hf_a" {
			t.Errorf("%q: %q", text, got)
		}
	}
	for _, text := range []string{"", "two words", "Authorization: Basic abc", "Authorization: Bearer"} {
		if got := tokenIn(text); got != "" {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func testNodes(count int) *nodes {
	bases := make([]string, count)
	return newNodes(&transport{}, bases, 1)
}

func TestCallsStartAtTheLeaderAndRestingNodesComeLast(t *testing.T) {
	n := testNodes(3)
	expect := func(expected ...int) {
		t.Helper()
		for i, index := range n.order() {
			if index != expected[i] {
				t.Error(n.order(), expected)
				return
			}
		}
	}
	learn := func(index int, id, leader string) {
		n.learn(index, map[string][]string{"Holdfast-Node": {id}, "Holdfast-Leader": {leader}})
	}
	expect(1, 2, 0)
	n.all[1].rest()
	expect(2, 0, 1)
	n.all[1].answered()
	learn(1, "12", "13")
	expect(2, 0, 1) // the leader is behind another address
	learn(2, "11", "13")
	expect(0, 1, 2)
	learn(0, "13", "13")
	expect(0, 1, 2)
	n.all[0].rest()
	expect(1, 2, 0)
	learn(1, "12", "none")
	expect(1, 2, 0)
}

func TestFencingHeader(t *testing.T) {
	guard := &Guard{holding: &holding{session: &session{}}, entry: &entry{lock: `a"b`, grant: grantBody{Token: 34, MinValidToken: 34, Mode: Exclusive}}}
	if got := guard.Headers().Get("Fencing-Token"); got != `34; resource="a\"b"` {
		t.Error(got)
	}
	guard.entry.grant.Mode, guard.entry.grant.MinValidToken, guard.entry.lock = Shared, 30, "ü"
	if got := guard.Headers().Get("Fencing-Token"); got != "34; floor=30" {
		t.Error(got)
	}
}

func TestErrorTexts(t *testing.T) {
	busy := &BusyError{&Problem{
		Code: "wait-timeout", Title: "No", Lock: "orders", Waiters: 1, WaitedMS: 5000,
		Holder: &Holder{Session: "s1", HeldForMS: 2100, Labels: map[string]string{"pid": "7", "host": "web1"}},
	}}
	if got := busy.Error(); got != `holdfast: timed out after 5s: lock "orders" is held by session "s1" (host=web1 pid=7) for 2.1s, 1 waiter` {
		t.Error(got)
	}
	lost := &LostError{Lock: "orders", Cause: CauseForceReleased, Reason: "host burnt down"}
	if got := lost.Error(); got != `holdfast: lock "orders" is lost: an operator force-released the lock (host burnt down)` {
		t.Error(got)
	}
}
