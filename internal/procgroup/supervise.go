package procgroup

import "time"

// A Supervision says how [Supervise] ends a command.
type Supervision struct {
	Grace        time.Duration // between SIGTERM and SIGKILL
	MaxProcesses int           // all are killed when there are more
}

// Exit statuses as in a shell: 127 for a command that cannot be started, 128 plus the number
// of the signal for a command that a signal has ended.
const (
	StatusNotStarted = 127
	SignalBase       = 128
)
