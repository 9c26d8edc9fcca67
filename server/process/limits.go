package process

import "time"

// Defaults of a [Command] and an [Output].
const (
	// DefaultGrace is how long a command may take to end when it is told to.
	DefaultGrace = 2 * time.Second
	// DefaultProcesses is how many processes a command may consist of.
	DefaultProcesses = 256
	// DefaultKept is how many bytes of its end an output keeps.
	DefaultKept = 64 << 10
	// DefaultJobs is how many [Jobs] may run at once.
	DefaultJobs = 16
)

const (
	// lookInterval is how often somebody looks for what there is no event of: how many
	// processes a guard has, and whether a port is open.
	lookInterval = 50 * time.Millisecond
	// dialTime is how long an address may take to say whether somebody listens.
	dialTime = time.Second
	// jobOutput is how many bytes of its end a job's output keeps.
	jobOutput = 256 << 10
	// remembered is how many jobs that have ended are remembered, for each that may run.
	remembered = 4
	// holdGrace is how long output may stay open when a command without a guard has ended,
	// held by what has escaped.
	holdGrace = 250 * time.Millisecond
	// readGrace is how long reading the output may take when a command below a guard has
	// ended: nobody holds it open.
	readGrace = 5 * time.Second
	// endGrace is how long a guard may take, beside the grace of its command, before it
	// is ended itself.
	endGrace = 5 * time.Second
)
