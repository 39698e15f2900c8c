"""The words of the protocol: keys, modes, events, instructions, messages, decisions."""
