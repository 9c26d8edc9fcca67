package console

import (
	"math/bits"
	"time"
)

const (
	// Statistics are of the last 5 minutes, in slots of 25 seconds.
	slots      = 12
	slotLength = 25 * time.Second
	// A time is counted in one of 8 buckets for each power of two of microseconds.
	bucketsPerOctave = 8
)

// statistics has the times of the calls of one server. The mutex of the recorder guards it.
type statistics struct {
	slots [slots]slot
}

type slot struct {
	number        int64 // of the slot since 1970
	calls, failed int
	slowest       time.Duration
	buckets       [40 * bucketsPerOctave]uint32
}

// add counts a call that has ended.
func (s *statistics) add(now time.Time, took time.Duration, failed bool) {
	number := now.UnixNano() / int64(slotLength)
	in := &s.slots[number%slots]
	if in.number != number {
		*in = slot{number: number}
	}
	in.calls++
	if failed {
		in.failed++
	}
	in.slowest = max(in.slowest, took)
	in.buckets[bucketOf(took)]++
}

// bucketOf returns the bucket of a time.
func bucketOf(took time.Duration) int {
	us := uint64(max(took.Microseconds(), 0))
	if us < bucketsPerOctave {
		return int(us)
	}
	octave := bits.Len64(us) - bits.Len(bucketsPerOctave-1) // at least 1
	return min(octave*bucketsPerOctave+int(us>>(octave-1))%bucketsPerOctave, len(slot{}.buckets)-1)
}

// timeOf returns the middle of a bucket.
func timeOf(bucket int) time.Duration {
	if bucket < bucketsPerOctave {
		return time.Duration(bucket) * time.Microsecond
	}
	octave := bucket / bucketsPerOctave
	low, width := uint64(bucketsPerOctave+bucket%bucketsPerOctave)<<(octave-1), uint64(1)<<(octave-1)
	return time.Duration(low+width/2) * time.Microsecond
}

// A summary is what the statistics say of the last 5 minutes. Times are in microseconds.
type summary struct {
	Calls   int          `json:"calls"`
	Failed  int          `json:"failed"`
	P50     int64        `json:"p50"`
	P95     int64        `json:"p95"`
	Slowest [slots]int64 `json:"slowest"` // of each slot, the last one at the end
}

func (s *statistics) summary(now time.Time) summary {
	var sum summary
	if s == nil {
		return sum
	}
	var buckets [len(slot{}.buckets)]int
	last := now.UnixNano() / int64(slotLength)
	for i := range slots {
		number := last - slots + 1 + int64(i)
		of := &s.slots[number%slots]
		if of.number != number {
			continue
		}
		sum.Calls += of.calls
		sum.Failed += of.failed
		sum.Slowest[i] = of.slowest.Microseconds()
		for b, n := range of.buckets {
			buckets[b] += int(n)
		}
	}
	sum.P50, sum.P95 = percentile(buckets[:], sum.Calls, 50), percentile(buckets[:], sum.Calls, 95)
	return sum
}

// percentile returns a time that the given percentage of calls did not exceed.
func percentile(buckets []int, calls, percent int) int64 {
	rank := (calls*percent + 99) / 100
	for b, n := range buckets {
		if rank -= n; rank <= 0 && calls > 0 {
			return timeOf(b).Microseconds()
		}
	}
	return 0
}

// count adds a call that has ended to the statistics of its server. The mutex is held.
func (r *Recorder) count(w *row, now time.Time) {
	if !w.reached { // it was refused before
		return
	}
	s := r.servers[w.server]
	if s == nil {
		if len(r.servers) == maxServers {
			return
		}
		s = &statistics{}
		r.servers[w.server] = s
	}
	s.add(now, w.took[served], w.outcome != "ok")
}

// maxServers is how many servers have statistics: the aliases of servers that callers launch are chosen by them.
const maxServers = 1000
