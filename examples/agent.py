"""What an agent might write: parse a CSV, ask another program, keep the result in a file."""
import csv
import io
import subprocess
import sys

DATA = """city,inhabitants
Lisbon,545796
Porto,231800
Braga,193324
"""

rows = list(csv.DictReader(io.StringIO(DATA)))
total = sum(int(row["inhabitants"]) for row in rows)
largest = max(rows, key=lambda row: int(row["inhabitants"]))["city"]
words = subprocess.run(["wc", "-l"], input=DATA, capture_output=True, text=True, check=True).stdout.strip()
with open("result.txt", "w", encoding="utf-8") as out:
    out.write(f"{total}\n")
print(f"{len(rows)} cities, {total} people, the largest is {largest}; wc counts {words} lines")
sys.exit(0 if total == 970920 else 7)
