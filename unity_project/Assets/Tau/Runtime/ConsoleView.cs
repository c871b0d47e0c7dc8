using System.Collections.Generic;
using UnityEngine;

namespace Tau
{
    /// <summary>Draws a console in immediate-mode GUI and reads its input.</summary>
    internal sealed class ConsoleView
    {
        private const string InputName = "tau-console";
        private const int FontSize = 14;
        private const float Margin = 6f;
        private const float LineHeight = 24f;

        private static readonly string[] Fonts =
        {
            "Consolas", "Menlo", "DejaVu Sans Mono", "Liberation Mono", "Courier New",
        };

        private static readonly Color Paper = new Color(0.05f, 0.06f, 0.08f, 0.92f);
        private static readonly Color[] Inks =
        {
            new Color(0.86f, 0.88f, 0.9f), new Color(0.55f, 0.8f, 1f), new Color(1f, 0.45f, 0.4f),
        };

        private readonly ConsoleText _text;
        private GUIStyle[] _styles;
        private GUIStyle _field;
        private Vector2 _scroll;
        private string _input = "";
        private int _shown;
        private bool _focus = true;
        private bool _toEnd;

        /// <summary>A view of a text.</summary>
        public ConsoleView(ConsoleText text)
        {
            _text = text;
        }

        /// <summary>Sends the next key to the input line.</summary>
        public void Focus()
        {
            _focus = true;
        }

        /// <summary>Draws one line at the top, if it is not empty.</summary>
        public void DrawHeadline(string line)
        {
            if (line.Length > 0)
            {
                MakeStyles();
                GUI.Label(new Rect(Margin, Margin, Screen.width - 2f * Margin, LineHeight), line, _styles[0]);
            }
        }

        /// <summary>Draws the console; call it for every event.</summary>
        /// <<param name="area">Its position, in pixels.</param>
        /// <returns>An entered line; null: none.</returns>
        public string Draw(Rect area)
        {
            MakeStyles();
            string entered = ReadKeys(Event.current);
            Color before = GUI.color;
            GUI.color = Paper;
            GUI.DrawTexture(area, Texture2D.whiteTexture);
            GUI.color = before;
            GUILayout.BeginArea(new Rect(
                area.x + Margin, area.y + Margin, area.width - 2f * Margin, area.height - 2f * Margin));
            DrawLines();
            DrawInput();
            GUILayout.EndArea();
            return entered;
        }

        /// <summary>Reads keys that the input line would consume, before it is drawn.</summary>
        private string ReadKeys(Event current)
        {
            if (current.type != EventType.KeyDown)
            {
                return null;
            }
            switch (current.keyCode)
            {
                case KeyCode.Return:
                case KeyCode.KeypadEnter:
                    string line = _input;
                    _input = "";
                    current.Use();
                    return line;
                case KeyCode.UpArrow:
                    Recall(-1, current);
                    break;
                case KeyCode.DownArrow:
                    Recall(1, current);
                    break;
            }
            return null;
        }

        private void Recall(int step, Event current)
        {
            _input = _text.Recall(step);
            _toEnd = true;
            current.Use();
        }

        private void DrawLines()
        {
            if (_shown != _text.Written && Event.current.type == EventType.Layout)
            {
                _shown = _text.Written;
                _scroll.y = float.MaxValue;
            }
            _scroll = GUILayout.BeginScrollView(_scroll);
            IReadOnlyList<ConsoleText.Line> lines = _text.Lines;
            for (var i = 0; i < lines.Count; i++)
            {
                GUILayout.Label(lines[i].Text, _styles[(int)lines[i].Kind]);
            }
            GUILayout.EndScrollView();
        }

        private void DrawInput()
        {
            GUI.SetNextControlName(InputName);
            _input = GUILayout.TextField(_input, _field);
            if (Event.current.type != EventType.Repaint)
            {
                return;
            }
            if (_focus)
            {
                _focus = false;
                GUI.FocusControl(InputName);
            }
            if (_toEnd && GUI.GetNameOfFocusedControl() == InputName)
            {
                _toEnd = false;
                var editor = (TextEditor)GUIUtility.GetStateObject(typeof(TextEditor), GUIUtility.keyboardControl);
                editor.text = _input;
                editor.MoveTextEnd();
            }
        }

        private void MakeStyles()
        {
            if (_styles != null)
            {
                return;
            }
            Font font = Font.CreateDynamicFontFromOSFont(Fonts, FontSize);
            _styles = new GUIStyle[Inks.Length];
            for (var i = 0; i < Inks.Length; i++)
            {
                _styles[i] = new GUIStyle(GUI.skin.label) { font = font, fontSize = FontSize, wordWrap = true };
                _styles[i].richText = false;
                _styles[i].margin = new RectOffset(0, 0, 0, 0);
                _styles[i].padding = new RectOffset(0, 0, 0, 0);
                _styles[i].normal.textColor = Inks[i];
            }
            _field = new GUIStyle(GUI.skin.textField) { font = font, fontSize = FontSize };
        }
    }
}
