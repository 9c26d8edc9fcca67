package toolserver_test

import "os"

func isRunning(pid int) bool {
	process, err := os.FindProcess(pid)
	return err == nil && process.Release() == nil
}

func kill(pid int) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return process.Kill()
}
