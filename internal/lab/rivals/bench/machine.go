package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// A Machine is when, where and how it was measured.
type Machine struct {
	Date      string            `json:"date"`
	Commit    string            `json:"commit"` // of this module
	Processor string            `json:"processor"`
	Cores     int               `json:"cores"`
	System    string            `json:"system"`
	Go        string            `json:"go"`
	Modules   map[string]string `json:"modules"` // versions of the other libraries
	Rounds    int               `json:"rounds"`
	Time      time.Duration     `json:"time"` // of a round, in nanoseconds
}

func thisMachine(rounds int, each time.Duration) Machine {
	m := Machine{
		Date: time.Now().UTC().Format(time.DateOnly), Commit: commit(),
		Processor: processor(), Cores: runtime.GOMAXPROCS(0), System: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Modules: map[string]string{}, Rounds: rounds, Time: each,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return m
	}
	for _, module := range info.Deps {
		switch module.Path {
		case "github.com/modelcontextprotocol/go-sdk":
			m.Modules[official] = module.Version
		case "github.com/mark3labs/mcp-go":
			m.Modules[other] = module.Version
		}
	}
	return m
}

func (m *Machine) String() string {
	return fmt.Sprintf("%s at commit %s: %s, %d cores, %s, %s; go-sdk %s, mcp-go %s; medians of %d rounds of %v",
		m.Date, m.Commit, m.Processor, m.Cores, m.System, m.Go, m.Modules[official], m.Modules[other], m.Rounds, m.Time)
}

// commit returns the commit of the working directory, with the suffix -dirty if files differ from it.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// processor returns the name of the processor, if /proc/cpuinfo has it.
func processor() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if key, name, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(name)
		}
	}
	return "unknown processor"
}
