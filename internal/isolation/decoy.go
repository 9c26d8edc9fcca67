package main

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

// decoy starts the victim's program beside the bridge, as the bridge does.
func (b *bridge) decoy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, window*8/10)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npx", "-y", "@modelcontextprotocol/server-everything@2026.8.31")
	in, err := cmd.StdinPipe() // it ends with its input
	if err != nil {
		return err
	}
	cmd.WaitDelay = time.Second
	cmd.Cancel = in.Close
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return errors.Join(errors.New("the server beside the bridge"), err)
	}
	return nil
}
