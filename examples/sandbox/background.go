package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
)

// writeTime is how long a command may take to read what it is sent.
const writeTime = 5 * time.Second

// Background are the tools for commands that go on while other tools are called.
type Background struct {
	commands *Commands
	jobs     process.Jobs
}

// RunBackgroundIn are the arguments of [Background.RunBackground].
type RunBackgroundIn struct {
	_       server.ToolTag `destructive:"true" idempotent:"false" openWorld:"true" timeout:"30s" tags:"commands"`
	Command string         `json:"command" jsonschema:"minLength=1,maxLength=100000"` // what the shell runs, in the workspace
}

// RunBackground starts a command and does not wait for it. It runs until it ends, is
// stopped, or the sandbox ends.
func (b *Background) RunBackground(_ context.Context, in RunBackgroundIn) (process.JobState, error) {
	job, err := b.jobs.Start(in.Command, b.commands.in(process.Shell(in.Command)))
	if err != nil {
		return process.JobState{}, err
	}
	return job.State(), nil
}

// BackgroundListIn is the annotation of [Background.BackgroundList].
type BackgroundListIn struct {
	_ server.ToolTag `readOnly:"true" openWorld:"false" tags:"commands"`
}

// A JobList is what commands there are in the background.
type JobList struct {
	Jobs []process.JobState `json:"jobs"`
}

// BackgroundList lists the commands in the background, those that have ended too.
func (b *Background) BackgroundList(context.Context, BackgroundListIn) (JobList, error) {
	return JobList{b.jobs.States()}, nil
}

// BackgroundReadIn are the arguments of [Background.BackgroundRead].
type BackgroundReadIn struct {
	_     server.ToolTag `readOnly:"true" openWorld:"false" timeout:"2m" tags:"commands"`
	ID    string         `json:"id"`                                               // as run_background gave it
	Since int64          `json:"since,omitempty" jsonschema:"minimum=0"`           // leave out so many bytes, as next of the last call says
	Wait  int            `json:"wait,omitempty" jsonschema:"minimum=0,maximum=60"` // seconds to wait for its end
}

// A JobOutput is what a command in the background has written.
type JobOutput struct {
	process.JobState
	Output  string `json:"output"`
	Next    int64  `json:"next"`     // the since of the next call
	LeftOut int64  `json:"left_out"` // bytes of the beginning that are not kept
}

// BackgroundRead returns what a command in the background has written.
func (b *Background) BackgroundRead(ctx context.Context, in BackgroundReadIn) (JobOutput, error) {
	job, err := b.jobs.Find(in.ID)
	if err != nil {
		return JobOutput{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(in.Wait)*time.Second)
	defer cancel()
	_, _ = job.Wait(ctx) // that it goes on is well
	now := job.State()
	output, next, left := job.Output.Since(in.Since)
	return JobOutput{JobState: now, Output: strings.ToValidUTF8(string(output), "\uFFFD"), Next: next, LeftOut: left}, nil
}

// BackgroundWriteIn are the arguments of [Background.BackgroundWrite].
type BackgroundWriteIn struct {
	_     server.ToolTag `destructive:"true" idempotent:"false" openWorld:"true" timeout:"10s" tags:"commands"`
	ID    string         `json:"id"`              // as run_background gave it
	Text  string         `json:"text"`            // what it reads, with the end of the line
	Close bool           `json:"close,omitempty"` // end its input then
}

// BackgroundWrite writes to the standard input of a command in the background, as far as
// that reads it within some seconds.
func (b *Background) BackgroundWrite(_ context.Context, in BackgroundWriteIn) (string, error) {
	job, err := b.jobs.Find(in.ID)
	if err != nil {
		return "", err
	}
	_, err = job.WriteWithin(writeTime, []byte(in.Text))
	if err == nil && in.Close {
		err = job.CloseInput()
	}
	return fmt.Sprintf("Wrote %d bytes to %s", len(in.Text), in.ID), err
}

// BackgroundStopIn are the arguments of [Background.BackgroundStop].
type BackgroundStopIn struct {
	_  server.ToolTag `destructive:"true" idempotent:"true" openWorld:"false" timeout:"20s" tags:"commands"`
	ID string         `json:"id"` // as run_background gave it
}

// BackgroundStop ends a command in the background, with all that it has started.
func (b *Background) BackgroundStop(_ context.Context, in BackgroundStopIn) (process.JobState, error) {
	job, err := b.jobs.Find(in.ID)
	if err != nil {
		return process.JobState{}, err
	}
	job.Stop()
	return job.State(), nil
}
