"""
Have a script run by script_server.py, with this process's files, folder and environment, and exit as it does.

Usage: script_client.py ADDRESS PYTHON SCRIPT ARGUMENTS... Without a server, PYTHON runs the script.
"""

import json
import os
import socket
import sys

address, python, *arguments = sys.argv[1:]
server = socket.socket(socket.AF_UNIX)
try:
    server.connect(f"\0{address}")
except OSError:
    os.execv(python, [python, *arguments])
call = {"arguments": arguments, "environment": dict(os.environ)}
text = json.dumps(call).encode()
socket.send_fds(server, [len(text).to_bytes(4)], [0, 1, 2, os.open(".", os.O_RDONLY)])
server.sendall(text)
answer = server.recv(1)
sys.exit(answer[0] if answer else f"{arguments[0]} was killed")
