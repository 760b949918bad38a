# An image with the command `skyband`, and nothing that runs as root:
#   docker build -t skyband .
#   docker run --rm --init -v "$PWD":/work skyband run /work/job.yaml
# It has all extras, and Spark's Delta jars: a container needs no network. tests/test_dockerfile.py runs these steps without Docker.

FROM python:3.11-slim-bookworm AS build
WORKDIR /build
RUN python -m venv /opt/skyband
COPY requirements-image.txt ./
RUN /opt/skyband/bin/python -m pip install --no-cache-dir --require-hashes -r requirements-image.txt
COPY . .
# The kernels that a first run would compile, for every x86-64 processor of the level v3, or for every aarch64 processor.
RUN /opt/skyband/bin/python -m skyband.framework.environment.bundle
RUN /opt/skyband/bin/python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir dist .
RUN /opt/skyband/bin/python -m pip install --no-cache-dir --no-deps --no-index --find-links dist skyband

FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install --yes --no-install-recommends openjdk-17-jre-headless && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 10001 skyband && install --directory --owner skyband /work
COPY --from=build /opt/skyband /opt/skyband
ENV PATH=/opt/skyband/bin:$PATH PYTHONUNBUFFERED=1
USER skyband
WORKDIR /work
# The first start of Spark downloads the jars.
RUN /opt/skyband/bin/python -P -c "from skyband.framework.streaming.spark.session import get_session; get_session('image').stop()"
ENTRYPOINT ["skyband"]
CMD ["--help"]
