package holdfast

import (
	"context"
	"errors"
	"time"
)

// sessionsMax is the maximum number of different times-to-live of the locks of one client.
const sessionsMax = 64

// sessions has one session for each time-to-live, opened on first use. The client replaces a generated session that has
// ended. It never replaces a session that the caller named, because the caller must see its end.
type sessions struct {
	// turn has a value while a caller opens a session, so that concurrent callers share it.
	turn     chan struct{}
	open     map[time.Duration]*session
	isClosed bool
}

func newSessions() *sessions {
	return &sessions{turn: make(chan struct{}, 1), open: map[time.Duration]*session{}}
}

// session returns the live session for a time-to-live, with one more user; it opens the session if necessary. Zero is the
// time-to-live of the client.
func (c *Client) session(ctx context.Context, ttl time.Duration) (*session, error) {
	if ttl != 0 && c.config.Session != "" && ttl != c.config.TTL {
		return nil, invalid("set the time-to-live of the named session %q on the client, not on a lock", c.config.Session)
	}
	if ttl == 0 {
		ttl = c.config.TTL
	}
	if ttl != 0 && (ttl < time.Second || ttl > 24*time.Hour) {
		return nil, invalid("a time-to-live is 1s to 24h, and not %v", ttl)
	}
	all := c.sessions
	select {
	case all.turn <- struct{}{}:
		defer func() { <-all.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if all.isClosed {
		return nil, invalid("the client is closed")
	}
	ended := all.open[ttl]
	if ended != nil && ended.enter() {
		return ended, nil
	}
	if ended == nil && len(all.open) >= sessionsMax {
		return nil, invalid("the locks of one client have at most %d different times-to-live: use fewer", sessionsMax)
	}
	name, isOwn := c.config.Session, false
	if name == "" {
		name, isOwn = unique(c.config.SessionPrefix), true
	}
	if ended != nil && !isOwn {
		return nil, ended.loss()
	}
	opened, err := c.openSession(ctx, name, isOwn, ttl)
	if err != nil {
		return nil, err
	}
	if ended != nil {
		ended.abandon(false)
	}
	all.open[ttl] = opened
	switch {
	case opened.enter():
		return opened, nil
	case isOwn:
		// The process was paused during the call. The next call opens another session.
		return nil, &UnavailableError{Reason: opened.loss().Error()}
	}
	return nil, opened.loss()
}

// Close closes the client's sessions, which releases everything they hold. Waiting calls end with a *LostError, and guards
// are lost. A session that the caller named stays open with its locks until it expires, so release its guards first. Close
// waits for its releases in progress, at most for the request timeout. After an error, no node has confirmed the end of a
// session, which then ends after its time-to-live.
func (c *Client) Close() error {
	closed := &loss{CauseSessionEnded, "the client was closed"}
	closedError := &LostError{Cause: closed.cause, Reason: closed.reason}
	c.endWaits(closedError)
	c.sessions.turn <- struct{}{}
	defer func() { <-c.sessions.turn }()
	defer c.stop()
	c.sessions.isClosed = true
	var err error
	for ttl, open := range c.sessions.open {
		delete(c.sessions.open, ttl)
		open.abandon(true)
		switch {
		case open.isOwn && open.isAlive():
			open.end(closed)
			err = errors.Join(err, open.close())
		case !open.isOwn:
			open.endWaits(closedError)
			open.settle(c.calls.timeout)
			open.end(closed)
		}
	}
	c.transport.http.CloseIdleConnections()
	return err
}

// close closes a generated session in the cluster. If no node answers, it expires after its time-to-live.
func (s *session) close() error {
	err := s.send.closeSession(context.Background(), s.name, s.incarnation)
	var lost *LostError
	if errors.As(err, &lost) {
		return nil
	}
	return err
}

// settle waits until the waits and the releases in progress are over, at most for the timeout.
func (s *session) settle(timeout time.Duration) {
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	for {
		s.mu.Lock()
		isSettled := s.pending == 0
		s.mu.Unlock()
		if isSettled {
			return
		}
		select {
		case <-s.settled:
		case <-limit.C:
			return
		}
	}
}
