using System;
using System.Collections.Generic;

namespace Tau
{
    /// <summary>The text of a console: its last lines, and the history of typed lines.</summary>
    internal sealed class ConsoleText
    {
        private const int MostLines = 500;
        private const int MostTyped = 100;

        private readonly List<Line> _lines = new List<Line>();
        private readonly List<string> _typed = new List<string>();
        private int _place;

        /// <summary>The kind of a line, which defines its color.</summary>
        internal enum Kind
        {
            /// <summary>An answer.</summary>
            Answer = 0,

            /// <<summary>A typed line.</summary>
            Typed = 1,

            /// <<summary>An error.</summary>
            Mistake = 2,
        }

        /// <summary>The lines, oldest first.</summary>
        public IReadOnlyList<Line> Lines => _lines;

        /// <summary>Total number of written lines: it changes when there is something new to show.</summary>
        public int Written { get; private set; }

        /// <summary>Adds text, possibly several lines.</summary>
        public void Write(string text, Kind kind)
        {
            foreach (string line in text.TrimEnd().Split('\n'))
            {
                _lines.Add(new Line(line.TrimEnd('\r'), kind));
                Written++;
            }
            if (_lines.Count > MostLines)
            {
                _lines.RemoveRange(0, _lines.Count - MostLines);
            }
        }

        /// <summary>Adds a typed line to the history and shows it.</summary>
        public void Type(string line)
        {
            Write("> " + line, Kind.Typed);
            if (_typed.Count == 0 || _typed[_typed.Count - 1] != line)
            {
                _typed.Add(line);
            }
            if (_typed.Count > MostTyped)
            {
                _typed.RemoveAt(0);
            }
            _place = _typed.Count;
        }

        /// <summary>Another line of the history; empty after the last one.</summary>
        /// <param name="step">-1: the previous one; 1: the next one.</param>
        public string Recall(int step)
        {
            _place = Math.Max(0, Math.Min(_typed.Count, _place + step));
            return _place == _typed.Count ? "" : _typed[_place];
        }

        /// <summary>A line with its kind.</summary>
        internal struct Line
        {
            /// <summary>A line.</summary>
            public Line(string text, Kind kind)
            {
                Text = text;
                Kind = kind;
            }

            /// <<summary>Its text.</summary>
            public string Text { get; }

            /// <<summary>Its kind.</summary>
            public Kind Kind { get; }
        }
    }
}
