package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
)

const barWidth = 30

// A bar shows progress, on one line of a terminal; elsewhere each report has a line.
type bar struct {
	w        io.Writer
	terminal bool
	drawn    bool
}

func newBar(w io.Writer) *bar {
	return &bar{w: w, terminal: isTerminal(w)}
}

func (b *bar) progress(p *mcp.ProgressParams) {
	if !b.terminal {
		of := ""
		if p.Total != nil {
			of = fmt.Sprint(" of ", *p.Total)
		}
		fmt.Fprintf(b.w, "progress %v%s: %s\n", p.Progress, of, printable(p.Message))
		return
	}
	b.drawn = true
	if p.Total == nil || *p.Total <= 0 {
		fmt.Fprintf(b.w, "\r\x1b[K%v %s", p.Progress, printable(p.Message))
		return
	}
	share := min(max(p.Progress/(*p.Total), 0), 1)
	full := int(share * barWidth)
	fmt.Fprintf(b.w, "\r\x1b[K[%s%s] %3.0f%% %s", strings.Repeat("#", full), strings.Repeat("·", barWidth-full), share*100, printable(p.Message))
}

func (b *bar) clear() {
	if b.drawn {
		fmt.Fprint(b.w, "\r\x1b[K")
		b.drawn = false
	}
}

// printable is a server's text without what would command the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 || 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 {
			return -1
		}
		return r
	}, text)
}
