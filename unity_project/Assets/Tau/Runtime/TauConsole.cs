using System;
using Tau.Core;
using UnityEngine;

namespace Tau
{
    /// <summary>
    /// A small console in the game: the back-quote key or F1 opens and closes it, up and down recall typed lines,
    /// `help` lists the commands. While it is closed, one line shows the training's progress. Without a window it does
    /// nothing.
    /// </summary>
    /// <remarks>
    /// Keys come as events of immediate-mode GUI. Unity does not send them if a project's Active Input Handling is only
    /// the Input System package; <see cref="Execute"/> still works there.
    /// </remarks>
    [AddComponentMenu("Tau/Tau Console")]
    [DisallowMultipleComponent]
    public sealed class TauConsole : MonoBehaviour
    {
        private const float HeightShare = 0.5f;
        private const float SecondsBetweenLooks = 0.5f;

        [SerializeField]
        [Tooltip("Open when the game starts.")]
        private bool _open = false;

        private readonly ConsoleText _text = new ConsoleText();
        private ConsoleActions _actions;
        private ConsoleView _view;
        private string _headline = "";
        private float _nextLook;

        /// <summary>Shows the console with a text.</summary>
        public void Open(string text)
        {
            _open = true;
            Print(text);
        }

        /// <summary>Shows the console with an error, in red.</summary>
        public void OpenWithMistake(string sentence)
        {
            _open = true;
            PrintMistake(sentence);
        }

        /// <summary>Writes text, possibly several lines.</summary>
        public void Print(string text)
        {
            _text.Write(text, ConsoleText.Kind.Answer);
        }

        /// <summary>Writes an error, in red.</summary>
        public void PrintMistake(string sentence)
        {
            _text.Write(sentence, ConsoleText.Kind.Mistake);
        }

        /// <summary>Executes a line as if it were typed; errors are shown, not thrown.</summary>
        public void Execute(string line)
        {
            if (string.IsNullOrWhiteSpace(line))
            {
                return;
            }
            _text.Type(line.Trim());
            try
            {
                _actions.Execute(ConsoleCommand.Parse(line));
            }
            catch (TauException mistake)
            {
                PrintMistake(mistake.Message);
            }
        }

        private void Awake()
        {
            _actions = new ConsoleActions(this);
            _view = new ConsoleView(_text);
            enabled = !Application.isBatchMode;
        }

        private void OnDestroy()
        {
            _actions?.Dispose();
        }

        private void Update()
        {
            if (Time.unscaledTime >= _nextLook)
            {
                _nextLook = Time.unscaledTime + SecondsBetweenLooks;
                _headline = _open ? "" : _actions.Headline();
            }
        }

        private void OnGUI()
        {
            if (IsToggle(Event.current))
            {
                _open = !_open;
                _view.Focus();
                _headline = "";
                Event.current.Use();
            }
            if (!_open)
            {
                _view.DrawHeadline(_headline);
                return;
            }
            string line = _view.Draw(new Rect(0f, 0f, Screen.width, Screen.height * HeightShare));
            if (line != null)
            {
                Execute(line);
            }
        }

        /// <summary>
        /// A key comes as two events, one with its code and one with its character; the second one is consumed, so that
        /// it is not typed.
        /// </summary>
        private static bool IsToggle(Event current)
        {
            if (current.type != EventType.KeyDown)
            {
                return false;
            }
            if (current.keyCode == KeyCode.BackQuote || current.keyCode == KeyCode.F1)
            {
                return true;
            }
            if (current.character == '`')
            {
                current.Use();
            }
            return false;
        }
    }
}
