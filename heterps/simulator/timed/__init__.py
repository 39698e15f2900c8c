"""The simulated cluster with a clock: what everything takes comes from figures, nothing is drawn and nothing fails."""
