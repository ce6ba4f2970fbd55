package holdfast

import (
	"slices"
	"time"
)

// The bodies of answers, with the fields that the client reads.

type sessionBody struct {
	Session     string     `json:"session"`
	Incarnation int64      `json:"incarnation"`
	ExpiresInMS int64      `json:"expires_in_ms"`
	Holds       []holdBody `json:"holds"`
	Revision    int64      `json:"revision"`
}

func (b *sessionBody) isComplete() bool { return b.Session != "" && b.Incarnation > 0 }

type holdBody struct {
	Lock   string `json:"lock"`
	Token  int64  `json:"token"`
	Ticket int64  `json:"ticket"` // stays the same while the hold continues: an upgrade replaces only the token
}

type eventsBody struct {
	sessionBody
	WaitedMS int64       `json:"waited_ms"`
	Events   []eventBody `json:"events"`
	Gap      *struct{}   `json:"gap"`
}

// held returns how long the cluster keeps the session after the call was sent.
func (b *eventsBody) held() time.Duration { return millis(b.WaitedMS + b.ExpiresInMS) }

type eventBody struct {
	Kind       string `json:"kind"`
	Lock       string `json:"lock"`
	Ticket     int64  `json:"ticket"`
	Token      int64  `json:"token"`
	Cause      string `json:"cause"`
	Reason     string `json:"reason"`
	WantedInMS int64  `json:"wanted_in_ms"`
	Revoke     bool   `json:"revoke"`
}

type grantBody struct {
	Lock          string `json:"lock"`
	Mode          Mode   `json:"mode"`
	Token         int64  `json:"token"`
	Ticket        int64  `json:"ticket"`
	MinValidToken int64  `json:"min_valid_token"`
	ExpiresInMS   int64  `json:"expires_in_ms"`
	EndsInMS      *int64 `json:"ends_in_ms"`
	WaitedMS      int64  `json:"waited_ms"`
	Permits       int    `json:"permits"`
	Slots         []int  `json:"slots"`
	Shard         *int   `json:"shard"`
}

// isComplete: a hold without a token would be no hold.
func (g *grantBody) isComplete() bool { return g.Lock != "" && g.Token > 0 }

// A transferBody is the token of a receiver, or of a durable hold.
type transferBody struct {
	Token int64 `json:"token"`
}

func (b *transferBody) isComplete() bool { return b.Token > 0 }

type grantsBody struct {
	Grants []grantBody `json:"grants"`
}

func (b *grantsBody) isComplete() bool {
	return len(b.Grants) > 0 && !slices.ContainsFunc(b.Grants, func(g grantBody) bool { return !g.isComplete() })
}

// acknowledgement returns how long the cluster keeps the session after a grant.
func (g *grantBody) acknowledgement(sent moment) acknowledgement {
	return acknowledgement{sent.plus(millis(g.WaitedMS)), millis(g.ExpiresInMS)}
}
