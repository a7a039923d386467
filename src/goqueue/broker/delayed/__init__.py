"""Messages that wait for their time: found in the log, fired when due, listed and cancelled."""
