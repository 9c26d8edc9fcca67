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

// Jobs are commands that go on while others are run. The zero value with a Guard is good.
type Jobs struct {
	// Guard starts them.
	Guard *Guard
	// Most is how many may run at once. Default [DefaultJobs]. As many times four that have
	// ended are remembered.
	Most int

	mu     sync.Mutex
	closed bool
	last   int
	jobs   []*Job // in the order in which they began
}

// A Job is one of them.
type Job struct {
	*Process
	ID string
	// Label is what the command is called.
	Label string
	Began time.Time
	// Output is the end of what it has written, to both of its streams.
	Output *Output
}

// A JobState is how a job does, in the words of tools.
type JobState struct {
	ID       string    `json:"id"`
	Label    string    `json:"command"`
	Running  bool      `json:"running"`
	ExitCode *int      `json:"exit_code,omitempty"` // once it has ended
	Written  int64     `json:"written"`             // bytes
	Began    time.Time `json:"began"`
}

// State is how the job does now.
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
	ErrTooManyJobs = errors.New("process: too many commands run already: one of them has to be stopped first")
	ErrClosed      = errors.New("process: no command is started any more")
)

// Start starts a command, with an input; Stdout, Stderr and Input of it are not looked at.
func (j *Jobs) Start(label string, c *Command) (*Job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, ErrClosed
	}
	most := cmp.Or(j.Most, DefaultJobs)
	running := 0
	for _, job := range j.jobs {
		if job.Running() {
			running++
		}
	}
	if running >= most {
		return nil, ErrTooManyJobs
	}
	job := &Job{ID: "job-" + strconv.Itoa(j.last+1), Label: label, Began: time.Now(), Output: &Output{Most: jobOutput}}
	command := *c
	command.Stdout, command.Stderr, command.Input = job.Output, job.Output, true
	var err error
	if job.Process, err = j.Guard.Start(&command); err != nil {
		return nil, fmt.Errorf("process: %w", err)
	}
	j.last++
	if len(j.jobs)-running >= remembered*most {
		i := slices.IndexFunc(j.jobs, func(job *Job) bool { return !job.Running() })
		j.jobs = slices.Delete(j.jobs, i, i+1)
	}
	j.jobs = append(j.jobs, job)
	return job, nil
}

// Find returns the job with an id. The error is one of a job that is not remembered.
func (j *Jobs) Find(id string) (*Job, error) {
	for _, job := range j.All() {
		if job.ID == id {
			return job, nil
		}
	}
	return nil, fmt.Errorf("process: there is no job %.40q", id)
}

// States say how all jobs do, in the order in which they were started.
func (j *Jobs) States() []JobState {
	states := []JobState{}
	for _, job := range j.All() {
		states = append(states, job.State())
	}
	return states
}

// All returns the jobs in the order in which they were started.
func (j *Jobs) All() []*Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.jobs)
}

// Close stops them all, and waits. No more are started.
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
