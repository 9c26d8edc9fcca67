package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// runClient starts the job, or waits for the job that an earlier client has started.
func runClient(ctx context.Context, url, file, duration string) error {
	session, err := client.Connect(ctx, streamable.Dial(url, nil), nil)
	if err != nil {
		return err
	}
	defer session.Close()

	bar := &progressBar{terminal: term.IsTerminal(int(os.Stdout.Fd()))}
	id, err := os.ReadFile(file)
	var result *mcp.CallToolResult
	switch {
	case err == nil:
		result, err = session.Task(string(id)).Wait(ctx, &client.CallOptions{Progress: bar.show})
	case errors.Is(err, fs.ErrNotExist):
		var stored error
		result, err = session.CallTool(ctx, "index", IndexIn{duration}, &client.CallOptions{
			Progress: func(p *mcp.ProgressParams) {
				bar.show(p)
				if p.Total != nil && p.Progress >= *p.Total/3 {
					kill()
				}
			},
			OnTask: func(task *mcp.Task) { stored = os.WriteFile(file, []byte(task.TaskID), 0o600) },
		})
		err = errors.Join(err, stored)
	}
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\n", result.Text())
	return os.Remove(file)
}

// kill ends this process as a crash does: nothing is closed, and the server is not told.
func kill() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
}

// A progressBar shows the progress of a job in one line of a terminal, and elsewhere in a line for each
// tenth.
type progressBar struct {
	terminal bool
	tenth    int // the last one shown
}

func (b *progressBar) show(p *mcp.ProgressParams) {
	if p.Total == nil || *p.Total <= 0 {
		return
	}
	const width = 40
	part := min(max(p.Progress / *p.Total, 0), 1)
	filled := int(part * width)
	line := fmt.Sprintf("[%s%s] %3.0f %% %s", strings.Repeat("#", filled), strings.Repeat("-", width-filled), 100*part, p.Message)
	switch tenth := int(part * 10); {
	case b.terminal:
		fmt.Print("\r\x1b[K", line)
	case tenth > b.tenth:
		b.tenth = tenth
		fmt.Println(line)
	}
}
