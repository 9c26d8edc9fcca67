package console

import (
	"time"

	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
)

// The states of a [Build].
const (
	Building    = "building"
	Built       = "built"
	BuildFailed = "failed"
)

// A Build is the state of a program that is built again when its source changes.
type Build struct {
	// State is [Building], [Built] or [BuildFailed].
	State string
	// File is the changed file, "" for the first build.
	File string
	// Took is how long the build and the start of the program took.
	Took time.Duration
	// Text says why the build failed, such as the output of the compiler. 64 KiB are shown.
	Text string
	// Added, Removed and Changed are the names of the tools that differ from those before the build. 1000 of each are shown.
	Added, Removed, Changed []string
}

const (
	// maxBuildText is how much of the text of a build is shown, in bytes.
	maxBuildText = 64 << 10
	// maxBuildNames is how many names of each list of a build are shown.
	maxBuildNames = 1000
)

// ShowBuild shows the state of a build to operators, until the next call. It does not block.
func (c *Console) ShowBuild(b Build) {
	frame := buildFrame{"build", b.State, c.record.name(b.File), b.Took.Microseconds(), c.record.short(b.Text, maxBuildText), c.shortNames(b.Added), c.shortNames(b.Removed), c.shortNames(b.Changed)}
	encoded := frontend.Encode(frame)
	c.build.Store(&encoded)
}

func (c *Console) shortNames(names []string) []string {
	shown := []string{}
	for _, name := range names[:min(len(names), maxBuildNames)] {
		shown = append(shown, c.record.name(name))
	}
	return shown
}

type buildFrame struct {
	Type    string   `json:"type"`
	State   string   `json:"state"`
	File    string   `json:"file"`
	Took    int64    `json:"took"` // microseconds
	Text    string   `json:"text"`
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []string `json:"changed"`
}
