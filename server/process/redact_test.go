package process_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/server/process"
)

// No output contains a secret, however the command writes it.
func TestSecretsAreRedacted(t *testing.T) {
	const key, longer = "hunter2-hunter2", "hunter2-hunter2-and-more"
	secrets := []string{"KEY=" + key, "LONGER=" + longer, "EMPTY="}
	for script, want := range map[string]string{
		`echo "<$KEY>"`:                              "<[redacted]>\n",
		`printf "$KEY$KEY"`:                          "[redacted][redacted]",
		`printf "$LONGER"`:                           "[redacted]",
		`printf "$LONGER" >&2`:                       "[redacted]",
		`printf hunter2-hun; sleep 0.1; printf ter2`: "[redacted]",
		`printf hunter2-hunter2-and-mor`:             "[redacted]-and-mor",
		`printf hunter2-hunter`:                      "hunter2-hunter",
		`printf hhunter2-hunter2`:                    "h[redacted]",
		`printf x"$EMPTY"x`:                          "xx",
	} {
		var out process.Output
		command := process.Shell(script)
		command.Secrets, command.Stdout, command.Stderr = secrets, &out, &out
		if exit, err := guard.Run(t.Context(), command); err != nil || exit.Code != 0 || exit.Truncated {
			t.Errorf("%s: %+v %v", script, exit, err)
		}
		if got := out.String(); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
}

// Errors, jobs and files get the redacted output, too.
func TestSecretsAreRedactedEverywhere(t *testing.T) {
	const key = "hunter2-hunter2"
	command := process.Shell(`echo "$KEY"; echo "$KEY" >&2; exit 1`)
	command.Secrets = []string{"KEY=" + key}
	if _, err := guard.Output(t.Context(), command, 0); err == nil || strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), process.Redacted) {
		t.Errorf("the error of Output: %v", err)
	}
	jobs := process.Jobs{Guard: guard}
	defer jobs.Close()
	job, err := jobs.Start("a job", command)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := job.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := job.Output.String(); got != "[redacted]\n[redacted]\n" {
		t.Errorf("the output of a job: %q", got)
	}
	name := filepath.Join(t.TempDir(), "output")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	command.Stdout, command.Stderr = file, nil
	if _, err := guard.Run(t.Context(), command); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "[redacted]\n" {
		t.Errorf("a file has %q, %v", got, err)
	}
}

// The values of Env are not redacted.
func TestEnvIsNotRedacted(t *testing.T) {
	var out process.Output
	command := process.Shell(`echo "$NAME"`)
	command.Env, command.Stdout = []string{"NAME=visible"}, &out
	if _, err := guard.Run(t.Context(), command); err != nil || out.String() != "visible\n" {
		t.Errorf("%q %v", out.String(), err)
	}
}
