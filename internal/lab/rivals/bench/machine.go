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

// A Machine says when, where and how often something was measured.
type Machine struct {
	Date      string
	Commit    string // of this library
	Processor string
	Cores     int
	System    string
	Go        string
	Modules   map[string]string // versions of the other libraries
	Schedule  schedule
}

func thisMachine(s schedule) Machine {
	m := Machine{
		Date: time.Now().UTC().Format(time.DateOnly), Commit: commit(),
		Processor: processor(), Cores: runtime.GOMAXPROCS(0), System: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Modules: map[string]string{}, Schedule: s,
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
		m.Date, m.Commit, m.Processor, m.Cores, m.System, m.Go, m.Modules[official], m.Modules[other], m.Schedule.rounds, m.Schedule.time)
}

// commit returns the last commit that changed the code of the library, with the suffix -dirty if its files differ.
func commit() string {
	library := []string{"--", ":(top)*.go", ":(top,exclude)*_test.go", ":(top,exclude)internal/lab"}
	out, err := exec.Command("git", append([]string{"log", "-1", "--format=%h"}, library...)...).Output()
	if err != nil {
		return "unknown"
	}
	id := strings.TrimSpace(string(out))
	if exec.Command("git", append([]string{"diff", "--quiet", "HEAD"}, library...)...).Run() != nil {
		id += "-dirty"
	}
	return id
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
