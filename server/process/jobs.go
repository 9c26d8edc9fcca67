package process

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// defaultMaxJobs is the default of [Jobs].Max.
const defaultMaxJobs = 16

const (
	// maxJobOutput is the number of bytes that the output of a job keeps.
	maxJobOutput = 256 << 10
	// endedPerJob times Jobs.Max is the number of ended jobs that are kept.
	endedPerJob = 4
)

// Jobs are commands that run in the background. Guard must be set.
type Jobs struct {
	// Guard starts the commands.
	Guard *Guard
	// Max is the number of jobs that may run at the same time. Default 16. Four
	// times as many ended jobs are kept; the oldest are dropped.
	Max int

	mu     sync.Mutex
	closed bool
	last   int
	jobs   []*Job // in the order in which they were started
}

// A Job is a command that was started by [Jobs.Start].
type Job struct {
	*Process
	ID string
	// Label is the text passed to [Jobs.Start].
	Label string
	Began time.Time
	// Output keeps the last 256 KiB of standard output and standard error.
	Output *Output
}

// A JobState describes a job for a model.
type JobState struct {
	ID       string    `json:"id"`
	Label    string    `json:"command"`
	Running  bool      `json:"running"`
	ExitCode *int      `json:"exit_code,omitempty"` // nil while it runs
	Written  int64     `json:"written"`             // bytes of output
	Began    time.Time `json:"began"`
}

// State returns the current state of the job.
func (j *Job) State() JobState {
	s := JobState{ID: j.ID, Label: j.Label, Running: j.Running(), Began: j.Began.UTC().Truncate(time.Second)}
	if !s.Running {
		s.ExitCode = new(j.exit.Code)
	}
	s.Written = j.Output.Written()
	return s
}

// Errors of [Jobs.Start].
var (
	// ErrTooManyJobs says that [Jobs].Max jobs are running.
	ErrTooManyJobs = errors.New("process: too many commands are running: stop one first")
	// ErrClosed says that [Jobs.Close] has been called.
	ErrClosed = errors.New("process: no more commands are started")
)

// Start starts a command with an input. It ignores the command's Stdout, Stderr and Input.
func (j *Jobs) Start(label string, c *Command) (*Job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, ErrClosed
	}
	limit := cmp.Or(j.Max, defaultMaxJobs)
	running := 0
	for _, job := range j.jobs {
		if job.Running() {
			running++
		}
	}
	if running >= limit {
		return nil, ErrTooManyJobs
	}
	job := &Job{ID: "job-" + strconv.Itoa(j.last+1), Label: label, Began: time.Now(), Output: &Output{Max: maxJobOutput}}
	command := *c
	command.Stdout, command.Stderr, command.Input = job.Output, job.Output, true
	var err error
	if job.Process, err = j.Guard.Start(&command); err != nil {
		return nil, fmt.Errorf("process: %w", err)
	}
	j.last++
	if len(j.jobs)-running >= endedPerJob*limit {
		i := slices.IndexFunc(j.jobs, func(job *Job) bool { return !job.Running() })
		j.jobs = slices.Delete(j.jobs, i, i+1)
	}
	j.jobs = append(j.jobs, job)
	return job, nil
}

// Find returns the job with an id. The error says that there is none, or that it was dropped.
func (j *Jobs) Find(id string) (*Job, error) {
	for _, job := range j.All() {
		if job.ID == id {
			return job, nil
		}
	}
	return nil, fmt.Errorf("process: there is no job %.40q", id)
}

// States returns the state of each job, in the order in which they were started.
func (j *Jobs) States() []JobState {
	states := []JobState{}
	for _, job := range j.All() {
		states = append(states, job.State())
	}
	return states
}

// All returns all jobs, in the order in which they were started.
func (j *Jobs) All() []*Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.jobs)
}

// Close stops all jobs and waits for their end. Later calls of [Jobs.Start] fail.
func (j *Jobs) Close() {
	j.mu.Lock()
	j.closed = true
	jobs := slices.Clone(j.jobs)
	j.mu.Unlock()
	var stopping sync.WaitGroup
	for _, job := range jobs {
		stopping.Go(func() { job.Stop() })
	}
	stopping.Wait()
}
