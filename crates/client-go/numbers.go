package holdfast

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"
)

// largestAttempt is the largest number of an attempt or a request.
const largestAttempt = 1<<63 - 1

// newestNumber is the largest number that this process has returned.
var newestNumber atomic.Int64

// nextNumber returns the number of an attempt or a request: the microseconds since 1970, but larger than after and than
// every number returned before. Another program of the session may be ahead; the cluster then names its number.
func nextNumber(after int64) int64 {
	for {
		newest := newestNumber.Load()
		next := max(time.Now().UnixMicro(), newest+1, 1)
		if after < largestAttempt {
			next = max(next, after+1)
		}
		if newestNumber.CompareAndSwap(newest, next) {
			return next
		}
	}
}

// randomBits returns 64 random bits. It panics if the operating system has none, as no unique name can be generated.
func randomBits() uint64 {
	var bytes [8]byte
	if _, err := rand.Read(bytes[:]); err != nil {
		panic(fmt.Sprintf("holdfast: no randomness for a unique name: %v", err))
	}
	return binary.LittleEndian.Uint64(bytes[:])
}

// jitter returns a random number from 0 to 255.
func jitter() uint8 { return uint8(randomBits()) }

// unique returns a name that no other caller has.
func unique(prefix string) string { return fmt.Sprintf("%s-%016x", prefix, randomBits()) }
