package shell

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
)

// writeTime bounds the time in which a command reads its input.
const writeTime = 5 * time.Second

// background is the service for commands in the background.
type background struct{ shell *Shell }

type runBackgroundIn struct {
	_           server.ToolTag `destructive:"true" idempotent:"false" openWorld:"true" timeout:"30s" tags:"commands"`
	Command     string         `json:"command" jsonschema:"minLength=1,maxLength=100000"` // shell command, run in the workspace
	Credentials []string       `json:"credentials,omitempty" jsonschema:"maxItems=8"`     // names of credentials: each is an environment variable of the command
}

// RunBackground starts a command and does not wait for it. The command runs until it ends, is
// stopped, or the server ends.
func (b *background) RunBackground(_ context.Context, in runBackgroundIn) (process.JobState, error) {
	command := b.shell.command(process.Shell(in.Command))
	var err error
	if command.Secrets, err = b.shell.credentials.secrets(in.Credentials); err != nil {
		return process.JobState{}, err
	}
	job, err := b.shell.jobs.Start(label(in.Command), command)
	if err != nil {
		return process.JobState{}, err
	}
	return job.State(), nil
}

// maxLabel is the number of bytes of a command that lists contain.
const maxLabel = 1000

// label returns the beginning of a command.
func label(command string) string {
	if len(command) <= maxLabel {
		return command
	}
	return strings.ToValidUTF8(command[:maxLabel], "") + "…"
}

type backgroundListIn struct {
	_ server.ToolTag `readOnly:"true" openWorld:"false" tags:"commands"`
}

// A jobList lists the commands in the background.
type jobList struct {
	Jobs []process.JobState `json:"jobs"`
}

// BackgroundList lists the commands in the background, including those that have ended.
func (b *background) BackgroundList(context.Context, backgroundListIn) (jobList, error) {
	return jobList{b.shell.jobs.States()}, nil
}

type backgroundReadIn struct {
	_     server.ToolTag `readOnly:"true" openWorld:"false" timeout:"2m" tags:"commands"`
	ID    string         `json:"id"`                                               // id from run_background
	Since int64          `json:"since,omitempty" jsonschema:"minimum=0"`           // skip this number of bytes: next of the previous call
	Wait  int            `json:"wait,omitempty" jsonschema:"minimum=0,maximum=60"` // seconds to wait for the end of the command
}

// A jobOutput is output of a command in the background.
type jobOutput struct {
	process.JobState
	Output  string `json:"output"`
	Next    int64  `json:"next"`     // value of since for the next call
	LeftOut int64  `json:"left_out"` // bytes at the beginning that were discarded
}

// BackgroundRead returns the output of a command in the background.
func (b *background) BackgroundRead(ctx context.Context, in backgroundReadIn) (jobOutput, error) {
	job, err := b.shell.jobs.Find(in.ID)
	if err != nil {
		return jobOutput{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(in.Wait)*time.Second)
	defer cancel()
	_, _ = job.Wait(ctx) // an error means that the command still runs
	now := job.State()
	output, next, left := job.Output.Since(in.Since)
	return jobOutput{JobState: now, Output: strings.ToValidUTF8(string(output), "\uFFFD"), Next: next, LeftOut: left}, nil
}

type backgroundWriteIn struct {
	_     server.ToolTag `destructive:"true" idempotent:"false" openWorld:"true" timeout:"10s" tags:"commands"`
	ID    string         `json:"id"`              // id from run_background
	Text  string         `json:"text"`            // input, including the line break
	Close bool           `json:"close,omitempty"` // close the input afterwards
}

// BackgroundWrite writes to the standard input of a command in the background. It fails if
// the command does not read the input within some seconds.
func (b *background) BackgroundWrite(_ context.Context, in backgroundWriteIn) (string, error) {
	job, err := b.shell.jobs.Find(in.ID)
	if err != nil {
		return "", err
	}
	_, err = job.WriteWithin(writeTime, []byte(in.Text))
	if err == nil && in.Close {
		err = job.CloseInput()
	}
	return fmt.Sprintf("Wrote %d bytes to %s", len(in.Text), in.ID), err
}

type backgroundStopIn struct {
	_  server.ToolTag `destructive:"true" idempotent:"true" openWorld:"false" timeout:"20s" tags:"commands"`
	ID string         `json:"id"` // id from run_background
}

// BackgroundStop kills a command in the background and its processes.
func (b *background) BackgroundStop(_ context.Context, in backgroundStopIn) (process.JobState, error) {
	job, err := b.shell.jobs.Find(in.ID)
	if err != nil {
		return process.JobState{}, err
	}
	job.Stop()
	return job.State(), nil
}
