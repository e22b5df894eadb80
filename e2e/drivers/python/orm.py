"""SQLAlchemy as applications use it: models, sessions, a pool, reflection; over two drivers."""

import os
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import (
    ForeignKey,
    Numeric,
    String,
    Text,
    create_engine,
    func,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload

from values import show, show_rows

DIALECTS = {"sqlalchemy": "mysql+pymysql", "sqlalchemy-c": "mysql+mysqldb"}


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(50), unique=True)
    books: Mapped[list["Book"]] = relationship(
        back_populates="author", cascade="all, delete-orphan", order_by="Book.id"
    )


class Book(Base):
    __tablename__ = "book"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str] = mapped_column(String(100))
    price: Mapped[float | None] = mapped_column(Numeric(10, 2))
    blurb: Mapped[str | None] = mapped_column(Text)
    author_id: Mapped[int] = mapped_column(ForeignKey("author.id"))
    author: Mapped[Author] = relationship(back_populates="books")


def run(name, attempt):
    tls = os.environ["DRIVER_TLS"] == "on"
    c = name == "sqlalchemy-c"
    off = {"ssl_mode": "DISABLED"} if c else {"ssl_disabled": True}
    on = {"ssl_mode": "REQUIRED"} if c else {}
    url = URL.create(
        DIALECTS[name],
        username=os.environ["DRIVER_USER"],
        password=os.environ["DRIVER_PASSWORD"],
        host=os.environ["DRIVER_HOST"],
        port=int(os.environ["DRIVER_PORT"]),
        database=os.environ["DRIVER_SCHEMA"],
        query={"charset": "utf8mb4"},
    )
    engine = create_engine(
        url, connect_args=on if tls else off, pool_size=4, max_overflow=2, pool_pre_ping=True
    )
    for step, action in STEPS.items():
        attempt(step, lambda action=action: action(engine))
    engine.dispose()


def create(engine):
    Base.metadata.create_all(engine)
    return "created"


def reflect(engine):
    seen = inspect(engine)
    return {
        table: [
            [str((column["name"], str(column["type"]), column["nullable"])) for column in seen.get_columns(table)],
            str(seen.get_pk_constraint(table)),
            str(seen.get_foreign_keys(table)).replace(os.environ["DRIVER_SCHEMA"], "SCHEMA"),
            str(seen.get_indexes(table)),
        ]
        for table in sorted(seen.get_table_names())
    }


def add(engine):
    with Session(engine) as session:
        for number in range(5):
            books = [Book(title=f"book {number}.{part}", price=part * 1.25) for part in range(3)]
            session.add(Author(name=f"author {number} é 😀", books=books))
        session.commit()
        return session.scalar(select(func.count()).select_from(Book))


def read(engine):
    with Session(engine) as session:
        authors = session.scalars(select(Author).options(selectinload(Author.books)).order_by(Author.id))
        return [[a.id, a.name, [[b.id, b.title, show(b.price)] for b in a.books]] for a in authors]


def change(engine):
    with Session(engine) as session:
        author = session.get(Author, 2)
        author.name = "renamed"
        author.books[0].blurb = "long " * 5000
        session.delete(author.books[1])
        session.commit()
        lengths = session.execute(select(Book.id, func.length(Book.blurb)).order_by(Book.id)).all()
        return show_rows(lengths)


def duplicate(engine):
    with Session(engine) as session:
        session.add(Author(name="renamed"))
        try:
            session.commit()
        except IntegrityError as error:
            session.rollback()
            return [str(error.orig), session.scalar(select(func.count()).select_from(Author))]
        return "no error"


def nested(engine):
    with Session(engine) as session, session.begin():
        session.add(Author(name="kept"))
        try:
            with session.begin_nested():
                session.add(Author(name="kept"))
        except IntegrityError:
            pass
        session.add(Author(name="kept too"))
    with Session(engine) as session:
        return session.scalars(select(Author.name).order_by(Author.id)).all()


def bulk(engine):
    with engine.begin() as conn:
        rows = [{"title": f"bulk {n}", "price": n, "author_id": 1} for n in range(300)]
        count = conn.execute(insert(Book), rows).rowcount
        changed = conn.execute(update(Book).where(Book.title.like("bulk%")).values(price=7)).rowcount
        return [count, changed]


def stream(engine):
    with engine.connect().execution_options(stream_results=True, max_row_buffer=10) as conn:
        return sum(1 for _ in conn.execute(select(Book.id, Book.title)))


def levels(engine):
    seen = []
    for level in ("READ COMMITTED", "SERIALIZABLE", "REPEATABLE READ", "AUTOCOMMIT"):
        with engine.connect().execution_options(isolation_level=level) as conn:
            seen.append([conn.get_isolation_level(), conn.scalar(text("SELECT @@autocommit"))])
    return seen


def threads(engine):
    def work(number):
        with Session(engine) as session:
            session.add(Author(name=f"thread {number}", books=[Book(title=f"of thread {number}")]))
            session.commit()
            mine = select(Book.title).join(Author).where(Author.name == f"thread {number}")
            return session.scalars(mine).all()

    with ThreadPoolExecutor(12) as pool:
        return list(pool.map(work, range(24)))


def titles(engine):
    with Session(engine) as session:
        rows = session.execute(select(Author.name, Book.title, Book.price).join(Book.author))
        return show_rows(sorted(rows.all(), key=str))


def parameters(engine):
    with engine.connect() as conn:
        rows = conn.execute(
            text("SELECT :number + 1, :word, :nothing, :part"),
            {"number": 41, "word": "it's 100% \\ '\"", "nothing": None, "part": 1.5},
        ).all()
        return show_rows(rows)


STEPS = {
    "create": create,
    "reflect": reflect,
    "add": add,
    "read": read,
    "change": change,
    "duplicate": duplicate,
    "nested": nested,
    "bulk": bulk,
    "stream": stream,
    "isolation levels": levels,
    "threads": threads,
    "parameters": parameters,
    "what there is": titles,
}
