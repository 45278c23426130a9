"""Run 500 jobs, and read each as it ends."""

from pilotage.client import Client


def main() -> None:
    """Add the squares of 1 to 500, in whatever order they come."""
    with Client() as client:
        task = client.map(["expr", "{value}", "*", "{value}"], range(1, 501), name="squares")
        total = 0
        for many, job in enumerate(task.as_completed(), start=1):
            number = int(job["parameters"]["value"])
            total += number * number
            if many % 100 == 0:
                print(f"{many} jobs have ended")
        task.check()
    print(f"{many} jobs, sum of squares {total}")


if __name__ == "__main__":
    main()
