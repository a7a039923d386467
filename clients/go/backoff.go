package goqueue

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	delayFirst = 100 * time.Millisecond
	delayMax   = 5 * time.Second
)

// delays are the waits between attempts: each twice as long as the one before, less up to half of
// it by chance, and never shorter than the node asks for.
type delays struct {
	first, longest time.Duration
	failures       int
}

// next is how long to wait after an attempt that failed.
func (d *delays) next(err error) time.Duration {
	delay := min(d.first<<min(d.failures, 16), d.longest)
	d.failures++
	return max(delay-rand.N(delay/2), retryAfter(err))
}

// reset begins again with the shortest wait.
func (d *delays) reset() { d.failures = 0 }

func sleep(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
