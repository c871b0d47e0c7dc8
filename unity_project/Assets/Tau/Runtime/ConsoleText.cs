using System;
using System.Collections.Generic;

namespace Tau
{
    /// <summary>What a console shows: its last lines, and the lines that were typed before.</summary>
    internal sealed class ConsoleText
    {
        private const int MostLines = 500;
        private const int MostTyped = 100;

        private readonly List<Line> _lines = new List<Line>();
        private readonly List<string> _typed = new List<string>();
        private int _place;

        /// <summary>What a line is, and hence its colour.</summary>
        internal enum Kind
        {
            /// <summary>An answer.</summary>
            Answer = 0,

            /// <summary>What was typed.</summary>
            Typed = 1,

            /// <summary>A mistake.</summary>
            Mistake = 2,
        }

        /// <summary>The lines, oldest first.</summary>
        public IReadOnlyList<Line> Lines => _lines;

        /// <summary>How many lines were ever written: it changes when there is something new to show.</summary>
        public int Written { get; private set; }

        /// <summary>Adds text, which may have several lines.</summary>
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

        /// <summary>Takes note of a line that was typed, and shows it.</summary>
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

        /// <summary>Another line that was typed before; empty behind the last one.</summary>
        /// <param name="step">-1: the one before; 1: the one after.</param>
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

            /// <summary>What it says.</summary>
            public string Text { get; }

            /// <summary>What it is.</summary>
            public Kind Kind { get; }
        }
    }
}
