// Package holdfast is the client of holdfast, a self-hosted lock coordinator. It acquires locks over HTTP from any node,
// renews them, and reports when they are lost.
//
//	hf, err := holdfast.New(holdfast.Config{Addresses: []string{"10.0.0.1:7400", "10.0.0.2:7400", "10.0.0.3:7400"}})
//	ctx, guard, err := hf.Lock(ctx, "orders", holdfast.Wait(10*time.Second))
//	defer guard.Release()
//
// The returned context is cancelled at the loss of the lock, with a *LostError as its cause. A process can be paused
// between a check and a write, so send guard.Token() with each write, and let the store reject smaller tokens.
package holdfast

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
)

const (
	defaultAddress        = "127.0.0.1:7400"
	defaultPrefix         = "sdk"
	defaultRequestTimeout = 10 * time.Second
)

// Config has the options of a client. The zero value of each option is its default.
type Config struct {
	// Addresses are the HTTP addresses of all nodes, or of some: host:port, http://host:port or https://host:port. The
	// default is HOLDFAST_ADDR, a list with commas, otherwise 127.0.0.1:7400.
	Addresses []string
	// TTL is the time after which the locks of a dead client are free, 1 s to 24 h. The default is 30 s; a named session
	// that exists keeps its TTL.
	TTL time.Duration
	// SessionPrefix begins the generated name of the session. The default is sdk.
	SessionPrefix string
	// Session names the session, which other clients may share and which outlives this client. The client never replaces
	// it: once it has ended, calls return a *LostError. The client releases a lost guard in the background until it is
	// closed, because another program may renew the session.
	Session string
	// Labels of the session are visible to other callers.
	Labels map[string]string
	// RequestTimeout bounds a call, without the time that it waits for a lock. The default is 10 s.
	RequestTimeout time.Duration
	// CA is a file with the only CAs that may have signed the certificates of nodes, in PEM form. With CA or Certificate,
	// addresses without a scheme mean https.
	CA string
	// Certificate and Key are files with the certificate of the client and its private key, in PEM form.
	Certificate, Key string
	// AccessToken is sent with every call.
	AccessToken string
	// AccessTokenFile has the access token. The client reads it again after a change.
	AccessTokenFile string
	// Logger receives losses and failed renewals. The default is slog.Default().
	Logger *slog.Logger
	// Metrics receives acquires, waits, losses and renewals. The default ignores them.
	Metrics Metrics
}

// A Client has one session at a cluster, which it renews while a guard needs it. Its methods may be called from several
// goroutines.
type Client struct {
	config    Config
	transport *transport
	calls     sender
	sessions  *sessions
	log       *slog.Logger
	metrics   Metrics
	// ctx is cancelled by stop at the end of Close. Releases in the background then stop.
	ctx  context.Context
	stop context.CancelFunc
	// ending is cancelled with a LostError when Close begins. The waits without a session then end.
	ending   context.Context
	endWaits context.CancelCauseFunc
}

// New creates a client. It sends nothing yet.
func New(config Config) (*Client, error) {
	if len(config.Addresses) == 0 {
		config.Addresses = []string{defaultAddress}
		if list := os.Getenv("HOLDFAST_ADDR"); list != "" {
			config.Addresses = strings.Split(list, ",")
		}
	}
	var bases []string
	for _, address := range config.Addresses {
		base, err := baseURL(address, config.CA != "" || config.Certificate != "")
		if err != nil {
			return nil, err
		}
		bases = append(bases, base)
	}
	if config.Session != "" && config.SessionPrefix != "" {
		return nil, invalid("set Session or SessionPrefix, not both")
	}
	if config.TTL != 0 && (config.TTL < time.Second || config.TTL > 24*time.Hour) {
		return nil, invalid("a time-to-live is 1s to 24h, and not %v", config.TTL)
	}
	if config.RequestTimeout < 0 {
		return nil, invalid("a request timeout is not negative: %v", config.RequestTimeout)
	}
	config.SessionPrefix = orDefault(config.SessionPrefix, defaultPrefix)
	config.RequestTimeout = orDefault(config.RequestTimeout, defaultRequestTimeout)
	transport, err := newTransport(config)
	if err != nil {
		return nil, err
	}
	c := &Client{
		config: config, transport: transport, sessions: newSessions(), log: config.Logger, metrics: config.Metrics,
		calls: sender{newNodes(transport, bases, jitter()), config.RequestTimeout},
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.ending, c.endWaits = context.WithCancelCause(c.ctx)
	if c.log == nil {
		c.log = slog.Default()
	}
	if c.metrics == nil {
		c.metrics = noMetrics{}
	}
	return c, nil
}

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// String returns the addresses.
func (c *Client) String() string {
	return fmt.Sprintf("holdfast client of %s", strings.Join(c.config.Addresses, ", "))
}
