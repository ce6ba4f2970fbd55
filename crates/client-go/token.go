package holdfast

import (
	"os"
	"strings"
	"sync"
	"time"
)

// An accessToken is sent with every call. A token of a file is read again after the file has changed.
type accessToken struct {
	path string // empty for a token as text

	mu       sync.Mutex
	text     string
	modified time.Time
}

func newAccessToken(config Config) (*accessToken, error) {
	switch {
	case config.AccessToken != "" && config.AccessTokenFile != "":
		return nil, invalid("set AccessToken or AccessTokenFile, not both")
	case config.AccessToken != "":
		text := tokenIn(config.AccessToken)
		if text == "" {
			return nil, invalid("AccessToken has no access token")
		}
		return &accessToken{text: text}, nil
	case config.AccessTokenFile != "":
		token := &accessToken{path: config.AccessTokenFile}
		if token.header() == "" {
			return nil, invalid("%s has no access token: write the token, or Authorization: Bearer TOKEN", token.path)
		}
		return token, nil
	}
	return nil, nil
}

// header returns the value of the header Authorization. While the file cannot be read, its last content is used.
func (t *accessToken) header() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.path != "" {
		t.read()
	}
	if t.text == "" {
		return ""
	}
	return "Bearer " + t.text
}

func (t *accessToken) read() {
	info, err := os.Stat(t.path)
	if err != nil || info.ModTime().Equal(t.modified) {
		return
	}
	content, err := os.ReadFile(t.path)
	if err != nil {
		return
	}
	if text := tokenIn(string(content)); text != "" {
		t.text, t.modified = text, info.ModTime()
	}
}

// readAgain makes the next call read the file. It returns false if the token is not from a file.
func (t *accessToken) readAgain() bool {
	if t == nil || t.path == "" {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.modified = time.Time{}
	return true
}

// tokenIn returns the token in a text, which is the token or a header Authorization; empty if there is none.
func tokenIn(text string) string {
	token := strings.TrimSpace(text)
	if name, value, isHeader := strings.Cut(token, ":"); isHeader && strings.EqualFold(name, "authorization") {
		scheme, rest, _ := strings.Cut(strings.TrimSpace(value), " ")
		if !strings.EqualFold(scheme, "bearer") {
			return ""
		}
		token = strings.TrimSpace(rest)
	}
	for _, b := range []byte(token) {
		if b <= ' ' || b > '~' {
			return ""
		}
	}
	return token
}
