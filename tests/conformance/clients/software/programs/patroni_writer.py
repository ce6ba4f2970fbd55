"""Inserts numbers through whichever PostgreSQL server takes writes; one line `NUMBER TIME` for each acknowledged one."""

import sys
import time

import psycopg2

connect, acknowledged = sys.argv[1], open(sys.argv[2], "a", buffering=1)
connection, number = None, 0
while True:
    number += 1
    try:
        if connection is None:
            connection = psycopg2.connect(connect)
            connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO writes VALUES (%s)", (number,))
        acknowledged.write(f"{number} {time.time()}\n")
    except psycopg2.Error:
        connection = None
    time.sleep(0.05)
